// A process by its ID: a running one, or one in the kernel's log; and containers that ended.

package diagnose

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/internal/quote"
)

// logEntry is a message of the kernel's log and when it was written.
type logEntry struct {
	when time.Time
	text string
}

// PID diagnoses a process: stopped at its crash (under a debugger, or while its core is written), ended with a
// line in the kernel's log, or still running.
func PID(pid int, o Options) (*Result, error) {
	input := fmt.Sprintf("pid %d", pid)
	c, err := liveProcess(input, pid, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", input, err)
	}
	if c != nil {
		c.conclude(o)
	}
	if c != nil && c.Kind != None {
		return &Result{Input: input, Crashes: []*Crash{c}, Understood: true}, nil
	}
	entries, logErr := kernelLog()
	r := fromEntries(input, entries, o, func(c *Crash) bool { return c.PIDs != nil && c.PIDs[0] == pid }, nil)
	for _, of := range r.Crashes {
		of.conclude(o)
	}
	switch {
	case c != nil:
		r.Crashes = []*Crash{c}
	case len(r.Crashes) == 0 && (pid == died+sigsegv || pid == died+sigsys):
		return nil, refused(fmt.Sprintf("%s: no such process; as an exit status it means %s", input, SignalName(pid-died)),
			"diagnose the container that ended with it: 'docker ps -a' lists them, then 'vfix diagnose CONTAINER'")
	case len(r.Crashes) == 0 && logErr != nil:
		return nil, refused(fmt.Sprintf("%s: no such process, and the kernel's log cannot be read: %v", input, logErr),
			"run vfix as root, or give the log as a file: journalctl -k > LOG")
	case len(r.Crashes) == 0:
		return nil, refused(fmt.Sprintf("%s: no such process, and no crash of it in the kernel's log", input),
			"try an older log: journalctl -k > LOG, then 'vfix diagnose LOG'")
	}
	return r, nil
}

// fromEntries gathers the crashes of a log that keep accepts, from the lines whose time within accepts (nil: all).
func fromEntries(input string, entries []logEntry, o Options, keep func(*Crash) bool, within func(time.Time) bool) *Result {
	g := &logReader{input: input}
	r := &Result{Input: input, Understood: true}
	for _, e := range entries {
		if within != nil && !within(e.when) {
			continue
		}
		r.Lines++
		l, ok := parseLine(e.text)
		if !ok {
			g.code(e.text)
			continue
		}
		l.When = e.when.Format(time.RFC3339)
		if keep((&event{logLine: l}).crash()) {
			g.take(l, e.text)
		}
	}
	r.Crashes = g.finish(o)
	return r
}

// Exited has the facts about a container or a program that ended.
type Exited struct {
	Label   string // in words: "container web"
	Name    string // of a container, from its engine or its pod
	Image   string // as the user named it
	ImageID string // the engine's; "" if not known
	ID      string // of the container, from its engine
	Pod     string // NAMESPACE/NAME; "" outside Kubernetes
	Node    string // the Kubernetes node that it ran on
	Unit    string // of systemd
	Program string // path of the program that was started
	Words   []string
	// Has reports whether the container has a program with that name in the kernel; nil: not known.
	Has    func(comm string) bool
	Status int       // exit status
	To     time.Time // when it ended; zero: it was never started
	Error  string    // the engine's error for a failed start
	Line   string    // the line that reports it; "" for none
	// Lost is why the description does not have the end, "" if it does.
	Lost string
	// NoTime reports that it ended at an unknown time.
	NoTime bool
	// Elsewhere reports that it may not have run on this machine, so this kernel and its log are not evidence.
	Elsewhere bool
	// OutOfMemory is the engine's report that the limit of Memory bytes (0: not known) was the cause.
	OutOfMemory bool
	Memory      int64
	// JVM is why the JVM of its image fails on some hosts, "" for nothing; FixedHeap reports that the container's
	// command or environment limits its heap.
	JVM       string
	FixedHeap bool
	// Scan is the result for its image, nil if the image was not examined; NoScan is then the reason.
	Scan   *Scanned
	NoScan string
}

// isContainer reports whether it is a container: a program alone has no such name.
func (e Exited) isContainer() bool { return e.Name != "" }

// Exit statuses above died are signals, as in a shell. Scripts may exit with Python's returncode, the negative
// number of the signal, as a status of 8 bits.
const died, statuses = 128, 256

// Signal returns the signal that the exit status stands for, 0 for none.
func (e Exited) Signal() int {
	switch n := statuses - e.Status; {
	case n == sigsegv || n == sigsys: // other such numbers are programs' own statuses
		return n
	case -n == sigsegv || -n == sigsys: // batch systems add the signal to it
		return -n
	case e.Status > died && e.Status < statuses:
		return e.Status - died
	}
	return 0
}

// ended returns the signal that it ended by, in words; a status that a script derives from a signal may be the
// script's own.
func (e Exited) ended() string {
	may := ""
	if e.Signal() > 0 && e.Status != died+e.Signal() {
		may = "may have "
	}
	return fmt.Sprintf("%sended by %s (exit status %d)", may, SignalName(e.Signal()), e.Status)
}

// notStarted are the exit statuses of runtimes and shells for a program that could not be executed.
var notStarted = []int{126, 127, 255}

// slack is the possible difference between the clocks of an engine and of the kernel's log: the log's counts from
// the boot, and an engine records the end a little later.
const slack = 2 * time.Second

// Container diagnoses a container that ended, by its exit status, the kernel's log around its end, and its image.
func Container(e Exited, o Options) *Result {
	e.Label = cmp.Or(e.Label, "container "+e.Name)
	r := e.diagnose(o)
	for _, c := range r.Crashes {
		if e.Line != "" && len(c.Lines) == 0 {
			c.Lines = []string{e.Line}
		}
		c.conclude(o)
	}
	return r
}

func (e Exited) diagnose(o Options) *Result {
	base := &Crash{Input: e.Label, Source: ContainerEnd, Count: 1, Executable: e.Program}
	only := &Result{Input: e.Label, Crashes: []*Crash{base}, Understood: true}
	if !e.isContainer() {
		base.Source = Message
	}
	started := !e.To.IsZero() || e.NoTime
	if !e.To.IsZero() {
		base.When = e.To.Format(time.RFC3339)
	}
	if e.Lost != "" {
		base.Kind, base.because = Unknown, e.Lost
		base.Meaning = "Nothing here says how the container ended, so the cause is not known."
		return only
	}
	c := startFailure(e.Error, o)
	if c == nil {
		c = missingLibrary(e.Error)
	}
	if c != nil {
		c.Input, c.Source, c.When = e.Label, base.Source, base.When
		only.Crashes[0] = c
		return only
	}
	if !started {
		base.Kind, base.When = None, ""
		base.Meaning = "The container has not been started: there is no crash to diagnose."
		if e.Error != "" {
			base.Meaning = "The container could not be started: there is no crash to diagnose. The engine's error: " + e.Error
		}
		return only
	}
	base.Signal = e.Signal()
	if (base.Signal == 0 || base.Signal == sigabrt) && mention().MatchString(e.Error) {
		e.caught(base, o)
		return only
	}
	if base.Signal == 0 {
		e.byItself(base, o)
		return only
	}
	if base.Signal == sigkill && e.killed(base) {
		return only
	}
	if base.Signal == sigabrt && e.startsJVM() {
		base.Kind, base.because = Unknown, "a JVM ends by SIGABRT after a SIGSEGV, and its own report has the address"
		base.Meaning = fmt.Sprintf("It %s. A JVM that gets a SIGSEGV, also one in the vsyscall page, ends in this way.", e.ended())
		if e.isContainer() {
			base.Next = &Fix{"docker logs " + quote.Shell(e.Name) + " 2>&1 | vfix diagnose -", "reads the report of the JVM; it is also in hs_err_pid*.log"}
		}
		return only
	}
	if base.Signal != sigsegv && base.Signal != sigsys {
		base.Kind = Other
		base.Meaning = fmt.Sprintf("It %s, which the vsyscall page does not raise. This is not a vsyscall crash.", e.ended())
		if base.Signal == sigabrt && e.isContainer() {
			base.Confidence = Likely
			base.note("a program that catches a SIGSEGV, such as a JVM, may end in this way: its own report then has the address")
		}
		return only
	}
	state := e.host()
	ours, others := e.inLog(state.log, o)
	if len(ours) > 0 {
		only.Crashes = ours
		return only
	}
	for _, c := range others {
		base.Lines = append(base.Lines, c.Lines...)
	}
	base.Lines = base.Lines[:min(len(base.Lines), maxLines)]
	e.withoutLine(base, o, state)
	return only
}

// byItself describes an exit status of the program itself. A script may exit so after one of its commands crashed,
// and a program after it caught the signal: the status rules out neither the calls of the image nor a crash in the
// kernel's log.
func (e Exited) byItself(base *Crash, o Options) {
	base.Kind = None
	base.Meaning = fmt.Sprintf("The container ended with exit status %d, which does not stand for a signal: its program exited by itself.", e.Status)
	switch {
	case e.Status == 0:
		return
	case slices.Contains(notStarted, e.Status):
		base.note("this status can mean that the program was not started: 'docker logs %s' shows the error; run vfix diagnose with that line and --root %s", e.Name, quote.Shell(e.Image))
		return
	}
	state := e.host()
	ours, _ := e.inLog(state.log, o)
	for _, c := range ours {
		if c.Kind.Vsyscall() {
			base.Lines = append(base.Lines, c.Lines...)
		}
	}
	switch {
	case len(base.Lines) > 0:
		base.because = "at that time, a program that is also in the container's image crashed in the page, perhaps in another container"
	case e.Scan != nil && e.Scan.Affected && state.page != pageMapped:
		base.because = "files of the image call the vsyscall page"
	default:
		return
	}
	base.Kind = Unknown
	base.because += fmt.Sprintf("; exit status %d may follow a crash, of a command of a script or one that the program caught", e.Status)
	if e.isContainer() {
		base.Next = &Fix{"docker logs " + quote.Shell(e.Name) + " 2>&1 | vfix diagnose -", "reads what the program reported"}
	}
}

// launchers are programs of an image that start the actual program.
var launchers = []string{"", "sh", "bash", "dash", "ash", "tini", "dumb-init", "gosu", "su-exec"}

// startsJVM reports whether the program is a JVM, or may start one.
func (e Exited) startsJVM() bool {
	comm := commOf(e.Program)
	return comm == "java" || (slices.Contains(launchers, comm) || path.Ext(comm) == ".sh") && e.has("java")
}

// caught describes a program that reported a fault itself, and then exited or aborted. Its report rules nothing
// out, as it is not the kernel's.
func (e Exited) caught(base *Crash, o Options) {
	base.Kind, base.because = Unknown, "the program's own report has a fault, but does not place it in the page"
	base.Meaning = fmt.Sprintf("The container ended with exit status %d, and its program reported a fault.", e.Status)
	b := &backtrace{}
	for line := range strings.Lines(e.Error) {
		b.line(line)
		if len(base.Lines) < maxLines && mention().MatchString(line) {
			base.Lines = append(base.Lines, strings.TrimSpace(line))
		}
	}
	if c := b.crash(); c != nil && c.Kind == Call {
		base.Kind, base.Confidence, base.Function, base.Meaning, base.IP, base.Known = c.Kind, c.Confidence, c.Function, c.Meaning, c.IP, c.Known
		base.fix(o, nil)
	}
}

// hostState is the evidence of this machine about a container that ran on it.
type hostState struct {
	log     []logEntry
	err     error     // of reading the log
	page    pageState // of the processes of this machine
	covers  bool      // the log reaches back beyond the container's end
	dropped bool      // the kernel suppressed messages
}

// host returns the evidence of this machine, empty for a container that may have run elsewhere.
func (e Exited) host() (s hostState) {
	if e.Elsewhere {
		return s
	}
	s.page = pageHere()
	s.log, s.err = kernelLog()
	s.covers = len(s.log) > 0 && !e.To.IsZero() && s.log[0].when.Before(e.To.Add(-slack))
	for _, l := range s.log {
		s.dropped = s.dropped || e.atEnd(l.when) && strings.Contains(l.text, "callbacks suppressed")
	}
	return s
}

// withoutLine describes a SIGSEGV or SIGSYS for which the kernel's log has no line that is certainly the
// container's.
func (e Exited) withoutLine(base *Crash, o Options, state hostState) {
	what := "It"
	if e.isContainer() {
		what = "The container"
	}
	signal := SignalName(base.Signal)
	base.Kind = Unknown
	base.Meaning = fmt.Sprintf("%s %s. Nothing at hand says where, so the cause is not known.", what, e.ended())
	base.because = fmt.Sprintf("nothing here says where the %s was", signal)
	others := len(base.Lines) > 0
	if others {
		base.note("at that time a program crashed that is not known to be in the container, perhaps one of another container: the lines above")
	}
	switch {
	case e.Elsewhere && e.isContainer():
		text := "nothing shows that it ran on this machine, so the kernel's log of this machine was not searched for it"
		if e.Node != "" {
			text += ": the log of node " + e.Node + " has it"
		}
		base.note("%s", text)
	case e.Elsewhere:
	case state.err != nil:
		base.note("the kernel's log cannot be read (%v): run vfix as root, or give it as a file", state.err)
	case !others && !e.To.IsZero():
		base.note("the kernel's log has no line about such a crash at %s, when it ended; the kernel drops old lines, and some of many at once", e.To.Format(time.RFC3339))
	}
	if state.page != pageUnknown {
		base.Page = state.page
		base.note("the vsyscall page is %s in the processes of this machine", state.page)
	}
	e.byImage(base, o, state, others)
	if base.Kind == Unknown {
		base.Next = e.next(o, state)
		if e.isContainer() && !e.Elsewhere {
			base.note("start it again and let it write a core file: docker run --ulimit core=-1 ..., then 'vfix diagnose --root %s CORE'", quote.Shell(e.Image))
		}
	}
}

// byImage adds the evidence of the image. The page is the likely cause of a SIGSEGV if the container's program
// calls it, unless the kernel serves the page, or the log reports each such call and has none.
func (e Exited) byImage(base *Crash, o Options, state hostState, others bool) {
	name := e.Image
	if e.Scan == nil {
		if e.NoScan != "" {
			base.note("the image was not examined: %s", e.NoScan)
		}
		return
	}
	if !e.Scan.Affected {
		switch {
		case e.Scan.Complete:
			base.note("no file of %s calls the vsyscall page; what the container itself wrote, and its volumes, were not examined", name)
			base.because = "no file of the image calls the vsyscall page, so the page is probably not the cause"
		default:
			base.note("no file of %s that was examined calls the vsyscall page, and some were not examined: 'vfix scan %s' lists them", name, quote.Shell(name))
		}
		return
	}
	calls := reachOf(o.Root, e.Program)
	base.note("%s calls the vsyscall page: %d call sites in %d files", name, e.Scan.Sites, len(e.Scan.Files))
	switch {
	case calls == reachesNot:
		base.because = fmt.Sprintf("files of the image call the vsyscall page, but neither %s nor its libraries do", e.Program)
	case base.Signal != sigsegv:
		base.because = "a seccomp filter refused a system call, and nothing here says which"
	case state.page == pageMapped:
		base.because = "the image calls the vsyscall page, but the kernel of this machine serves it, so that a call does not crash"
	case others:
		base.because = "another program crashed at that time, perhaps in another container"
	case state.covers && !state.dropped && state.err == nil:
		base.because = "the image calls the vsyscall page, but the kernel's log reports such calls and has none of that time"
	case calls == reachUnknown:
		base.because = "files of the image call the vsyscall page, but it is not known whether the container's program does"
	default:
		base.Kind, base.Confidence = Call, Likely
		base.Meaning = fmt.Sprintf("%s %s. %s calls the vsyscall page, and a kernel that does not serve the page (vsyscall=none) ends the program there. "+
			"Nothing at hand says where the crash was.", map[bool]string{true: "The container", false: "It"}[e.isContainer()], e.ended(), e.Program)
		base.fix(o, nil)
	}
}

// inLog finds the crashes by that signal around the end of the container. ours are those of the program that it
// started, else of other programs in it, as a shell script starts them; others are all other crashes.
func (e Exited) inLog(entries []logEntry, o Options) (ours, others []*Crash) {
	var own []*Crash
	r := fromEntries(e.Label, entries, o, func(c *Crash) bool { return e.Signal() == 0 || c.Signal == e.Signal() }, e.atEnd)
	for _, c := range r.Crashes {
		switch {
		case c.Program != "" && c.Program == commOf(e.Program):
			own = append(own, c)
		case e.has(c.Program):
			ours = append(ours, c)
		default:
			others = append(others, c)
		}
	}
	if len(own) > 0 {
		ours = own
	}
	for _, c := range ours {
		c.Source, c.Confidence = ContainerEnd, Likely
		if c.Program == commOf(e.Program) {
			c.Executable = e.Program
		}
		c.note("the kernel's log does not name containers: a program of this name is in the container, and the lines are of the time when it ended, %s", e.To.Format(time.RFC3339))
	}
	return ours, others
}

func (e Exited) has(comm string) bool {
	return comm != "" && (comm == commOf(e.Program) || e.Has != nil && e.Has(comm))
}

// atEnd reports whether a time is close to the container's end.
func (e Exited) atEnd(t time.Time) bool {
	if e.To.IsZero() {
		return false
	}
	return !t.Before(e.To.Add(-slack)) && !t.After(e.To.Add(slack))
}

// commOf returns the kernel's name for a process that executes a file: its base name, truncated.
func commOf(file string) string {
	const commLen = 15
	if file == "" {
		return ""
	}
	name := path.Base(file)
	return name[:min(len(name), commLen)]
}
