// A process by its number: one that lives, or one of which the kernel's log tells.

package diagnose

import (
	"fmt"
	"path"
	"slices"
	"time"

	"vfix.dev/vfix/internal/quote"
)

// logEntry is a message of the kernel's log and when it was written.
type logEntry struct {
	when time.Time
	text string
}

// PID diagnoses a process: stopped at its crash (under a debugger, or with its core being
// written), ended with a line in the kernel's log, or alive and well.
func PID(pid int, o Options) (*Result, error) {
	input := fmt.Sprintf("pid %d", pid)
	c, err := liveProcess(input, pid, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", input, err)
	}
	if c != nil && c.Kind != None {
		return &Result{Input: input, Crashes: []*Crash{c}}, nil
	}
	entries, logErr := kernelLog()
	r := fromEntries(input, entries, o, func(c *Crash) bool { return c.PIDs != nil && c.PIDs[0] == pid }, nil)
	switch {
	case c != nil:
		r.Crashes = []*Crash{c}
	case len(r.Crashes) == 0 && (pid == died+sigsegv || pid == died+sigsys):
		return nil, &refusedError{fmt.Sprintf("%s: no such process; as an exit status it means %s", input, SignalName(pid-died)),
			"diagnose the container that ended with it: 'docker ps -a' lists them, then 'vfix diagnose CONTAINER'"}
	case len(r.Crashes) == 0 && logErr != nil:
		return nil, &refusedError{fmt.Sprintf("%s: no such process, and the kernel's log cannot be read: %v", input, logErr),
			"run vfix as root, or give the log as a file: journalctl -k > LOG"}
	case len(r.Crashes) == 0:
		return nil, &refusedError{fmt.Sprintf("%s: no such process, and no crash of it in the kernel's log", input),
			"an older log may tell more: journalctl -k > LOG, then 'vfix diagnose LOG'"}
	}
	return r, nil
}

// fromEntries gathers the crashes of a log that keep says to, of the lines that within says
// to (nil: all).
func fromEntries(input string, entries []logEntry, o Options, keep func(*Crash) bool, within func(time.Time) bool) *Result {
	r := &Result{Input: input}
	for _, e := range entries {
		if within != nil && !within(e.when) {
			continue
		}
		r.Lines++
		l, ok := parseLine(e.text)
		if !ok {
			if r.gather != nil {
				r.gather.code(e.text)
			}
			continue
		}
		l.when = e.when.Format(time.RFC3339)
		g := &logReader{input: input}
		g.open = []*event{{logLine: l, lines: []string{e.text}}}
		if c := g.finish(Options{})[0]; !keep(c) {
			continue
		}
		r.add(l, e.text)
	}
	r.finish(o)
	return r
}

// add and finish gather lines as a log does.
func (r *Result) add(l logLine, text string) {
	if r.gather == nil {
		r.gather = &logReader{input: r.Input}
	}
	r.gather.take(l, text)
}

func (r *Result) finish(o Options) {
	if r.gather != nil {
		r.Crashes, r.gather = r.gather.finish(o), nil
	}
}

// Exited is what is known of a container that ended.
type Exited struct {
	Name    string
	Image   string // as its owner named it
	ID      string // the engine's
	Program string // path of what was started
	// Has reports whether the container has a program that the kernel knows by a name; nil: that is not known.
	Has    func(comm string) bool
	Status int       // exit status
	To     time.Time // when it ended; zero: it was never started
	Error  string    // the engine's, of a start that failed
	// OutOfMemory is the engine's word that the limit of Memory bytes (0: not known) was the cause.
	OutOfMemory bool
	Memory      int64
	// JVM is what ends the JVM of its image on some hosts, "" for nothing; FixedHeap says that the
	// container's command or environment has a limit for its heap.
	JVM       string
	FixedHeap bool
}

// died: exit statuses above are signals, as a shell shows them.
const died = 128

// notStarted are the statuses of runtimes and shells for a program that could not be executed.
var notStarted = []int{126, 127, 255}

// slack is how far the clocks of an engine and of the kernel's log may be apart: the log's
// counts from the boot, and an engine writes down the end a little later.
const slack = 2 * time.Second

// Container diagnoses a container that ended, by its exit status and by what the kernel's
// log says of the time when it ended.
func Container(e Exited, o Options) *Result {
	input := "container " + e.Name
	base := &Crash{Input: input, Source: ContainerEnd, Count: 1, Executable: e.Program}
	if !e.To.IsZero() {
		base.When = e.To.Format(time.RFC3339)
	}
	if c := startFailure(e.Error, o); c != nil {
		c.Input, c.Source, c.When = input, ContainerEnd, base.When
		return &Result{Input: input, Crashes: []*Crash{c}}
	}
	if e.To.IsZero() {
		base.Kind, base.When = None, ""
		base.Meaning = "The container has not been started: there is no crash to diagnose."
		if e.Error != "" {
			base.Meaning = "The container could not be started: there is no crash to diagnose. The engine's error: " + e.Error
		}
		return &Result{Input: input, Crashes: []*Crash{base}}
	}
	if e.Status > died && e.Status < 256 {
		base.Signal = e.Status - died
	}
	if base.Signal == 0 {
		base.Kind = None
		base.Meaning = fmt.Sprintf("The container ended with exit status %d, which is no signal: its program ended by itself.", e.Status)
		if slices.Contains(notStarted, e.Status) {
			base.note("this status can mean that the program was not started: 'docker logs %s' shows the error; run vfix diagnose with that line and --root %s", e.Name, quote.Shell(e.Image))
		}
		return &Result{Input: input, Crashes: []*Crash{base}}
	}
	if base.Signal == sigkill && e.killed(base) {
		return &Result{Input: input, Crashes: []*Crash{base}}
	}
	if base.Signal != sigsegv && base.Signal != sigsys {
		base.Kind = Other
		base.Meaning = fmt.Sprintf("The container ended by %s (exit status %d), which the vsyscall page does not raise. This is no vsyscall crash.", SignalName(base.Signal), e.Status)
		return &Result{Input: input, Crashes: []*Crash{base}}
	}
	entries, err := kernelLog()
	r := e.inLog(input, entries, o)
	if len(r.Crashes) > 0 {
		for _, c := range r.Crashes {
			c.Source = ContainerEnd
			if c.Program == commOf(e.Program) {
				c.Executable = e.Program
			}
			c.note("the kernel's log does not name containers: a program of this name is in the container, and the lines are of the time when it ended, %s", e.To.Format(time.RFC3339))
		}
		return r
	}
	base.Kind = Unknown
	base.Meaning = fmt.Sprintf("The container ended by %s (exit status %d). Nothing at hand says where, so the cause is not known.", SignalName(base.Signal), e.Status)
	if others := e.others(entries); len(others) > 0 {
		base.Lines = others[:min(len(others), maxLines)]
		base.note("at that time a program crashed that is not known to be in the container, perhaps one of another container: the lines above")
	}
	if err != nil {
		base.note("the kernel's log cannot be read (%v): run vfix as root, or give it as a file", err)
	} else if len(base.Lines) == 0 {
		base.note("the kernel's log has no line of such a crash at %s, when it ended; it forgets old lines, and leaves out some where many come at once", e.To.Format(time.RFC3339))
	}
	if served, known := pageServed(); known {
		base.Page = map[bool]string{true: "mapped", false: "not mapped"}[served]
		base.note("the vsyscall page is %s in the processes of this machine", base.Page)
	}
	base.note("start it again and let it write a core file: docker run --ulimit core=-1 ..., then 'vfix diagnose --root %s CORE'", quote.Shell(e.Image))
	return &Result{Input: input, Crashes: []*Crash{base}}
}

// inLog finds the crashes by that signal at the time when the container ended: of the program that it started, else
// of another one that it has, as a shell script starts one.
func (e Exited) inLog(input string, entries []logEntry, o Options) *Result {
	bySignal := func(c *Crash) bool { return c.Signal == e.Status-died }
	own := func(c *Crash) bool { return bySignal(c) && c.Program == commOf(e.Program) }
	if r := fromEntries(input, entries, o, own, e.atEnd); len(r.Crashes) > 0 {
		return r
	}
	return fromEntries(input, entries, o, func(c *Crash) bool { return bySignal(c) && e.has(c.Program) }, e.atEnd)
}

// has reports whether a program of that name is known to be in the container.
func (e Exited) has(comm string) bool {
	return comm != "" && (comm == commOf(e.Program) || e.Has != nil && e.Has(comm))
}

// others are the lines of crashes by that signal at that time, of whatever program.
func (e Exited) others(entries []logEntry) (lines []string) {
	r := fromEntries("", entries, Options{}, func(c *Crash) bool { return c.Signal == e.Status-died }, e.atEnd)
	for _, c := range r.Crashes {
		lines = append(lines, c.Lines...)
	}
	return lines
}

// atEnd reports whether a time is that of the container's end.
func (e Exited) atEnd(t time.Time) bool {
	return !t.Before(e.To.Add(-slack)) && !t.After(e.To.Add(slack))
}

// commOf is the name that the kernel gives a process that executes a file: its own, cut.
func commOf(file string) string {
	const commLen = 15
	if file == "" {
		return ""
	}
	name := path.Base(file)
	return name[:min(len(name), commLen)]
}
