// Logs of the kernel, or single lines of them. Lines about the same process are one crash; crashes that differ
// only in their process are counted.

package diagnose

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vfix.dev/vfix/rewriter/find"
)

const (
	// maxLogLine is the longest line that is read, in bytes, except for JSON. The kernel's own lines are below 1
	// KiB.
	maxLogLine = 64 << 10
	// maxCrashes is how many different crashes of a log are reported.
	maxCrashes = 1000
	// openCrashes is the number of processes whose crashes are still collecting lines: the lines of one crash
	// follow each other, but lines from other processors may be between them.
	openCrashes = 64
	// maxExecs is the number of processes whose programs are remembered.
	maxExecs = 10_000
)

// event is the lines about one process.
type event struct {
	logLine
	lines []string
	sha   bool // its code uses the SHA extensions
	lived bool // the process handled the signal, and exited by itself
}

// unitEnd is a line about a process of a unit that a signal ended.
type unitEnd struct{ unit, line string }

// logReader gathers crashes from lines.
type logReader struct {
	open    []*event
	crashes []*Crash
	more    int // crashes beyond maxCrashes
	input   string
	execs   map[int]string // the program that strace saw a process execute
	last    *event         // of the previous line; the kernel prints its code after it
	each    func(*Crash)   // is called for each crash, instead of counting it with others
	o       Options

	report   *backtrace // that the current lines belong to
	reports  []*backtrace
	ends     []Exited // crashes of which only the end is known
	mentions []string // lines of an unknown kind with a word of a crash
	results  []unitEnd
	units    map[string]bool // systemd units ("" for an unnamed one) with a known end of a process

	understood bool // a line was of a known kind
	unread     int  // lines of no known kind
	firstLeft  string
	lower      []byte
}

// readLog diagnoses the crashes in a log, oldest first. A log without crashes is not an error.
func readLog(input string, in io.Reader, o Options) (*Result, error) {
	g := &logReader{input: input, o: o, units: map[string]bool{}}
	lines, err := g.read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", input, err)
	}
	r := &Result{Input: input, Lines: lines, Crashes: g.finish(o), Understood: g.understood, Unread: g.unread, UnreadLine: g.firstLeft}
	var ended []*Crash
	for _, e := range g.ends {
		for _, c := range e.resolved(o).Crashes {
			ended = addAlike(ended, c)
		}
	}
	r.Crashes = append(r.Crashes, ended...)
	for _, u := range g.results {
		if !g.units[u.unit] && len(g.mentions) < maxLines {
			g.mentions = append(g.mentions, u.line)
		}
	}
	if len(g.mentions) > 0 && !slices.ContainsFunc(r.Crashes, func(c *Crash) bool { return c.Signal == sigsegv || c.Signal == sigsys }) {
		c := &Crash{Input: input, Source: Message, Count: 1, Lines: g.mentions, because: "nothing here says where the crash was"}
		c.unknownEnd("a signal that the vsyscall page may have raised")
		c.conclude(o)
		r.Crashes = append(r.Crashes, c)
	}
	return r, nil
}

// addAlike adds a crash to a list, or counts it with one that is the same.
func addAlike(all []*Crash, c *Crash) []*Crash {
	for _, old := range all {
		if old.Input == c.Input && old.alike(c) && old.Signal == c.Signal {
			old.Count++
			return all
		}
	}
	return append(all, c)
}

// resolved diagnoses an end of a program, with all that Resolve finds about it.
func (e Exited) resolved(o Options) *Result {
	e.Label, e.Elsewhere = cmp.Or(e.Label, e.Program, "a program"), true
	if o.Resolve != nil {
		o.Resolve(&e, &o)
	}
	return Container(e, o)
}

func (g *logReader) read(r io.Reader) (lines int, err error) {
	br := bufio.NewReaderSize(r, maxLogLine)
	entries := &entryReader{take: g.entry}
	defer entries.end()
	for {
		line, err := readLine(br)
		switch text := strings.TrimRight(string(line), "\r\n"); {
		case len(line) == 0:
		case len(line) < maxLogLine, strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
			entries.line(text)
		default:
			g.unread++
			if g.relevant(text) && len(g.mentions) < maxLines {
				g.mentions = append(g.mentions, fmt.Sprintf("line %d is too long to be read", lines+1))
			}
		}
		if len(line) > 0 {
			lines++
		}
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
	}
}

// readLine reads a line and returns its first maxRecord bytes.
func readLine(br *bufio.Reader) (line []byte, err error) {
	for {
		b, err := br.ReadSlice('\n')
		if len(line) < maxRecord {
			line = append(line, b...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (g *logReader) entry(e entry) {
	text := strings.TrimLeft(e.text, "\x00") // a machine that crashed leaves zeros in its log
	if strings.Contains(text, "\x00") {
		g.unread++
		return // binary data
	}
	known := e.by == byKernel || isLog(text)
	g.understood = g.understood || known
	if !g.relevant(text) && !g.relevant(e.record) {
		g.leave(text, known)
		return
	}
	for _, version := range []string{text, e.record} { // another part of a record may have more
		taken := false
		for one := range strings.SplitSeq(version, "\n") {
			taken = one != "" && g.one(one, e.by) || taken
		}
		if taken {
			g.understood = true
			return
		}
	}
	g.leave(text, known)
	if text += e.record; len(g.mentions) < maxLines && mention().MatchString(text) && !strings.Contains(text, "[vsyscall]") {
		g.mentions = append(g.mentions, strings.TrimSpace(text))
	}
}

// words has one word of each line that reports a crash, in lower case: to search for them is a hundred times
// faster than to read the line.
var words = [][]byte{
	[]byte("fault"), []byte("sig"), []byte("segv"), []byte("vsyscall"), []byte("ffffffffff600"), []byte("type=1"), []byte("seccomp"), []byte("anom_abend"), []byte("code"), []byte("exit"),
	[]byte("status"), []byte("error"), []byte("kill"), []byte("exec"), []byte("not found"), []byte("no such file"), []byte("schema"), []byte("manifest"), []byte("librar"), []byte("dump"), []byte("pid:"),
	[]byte("storage:"), []byte("boot id"), []byte("#0 "), []byte("#1 "), []byte("abort"), []byte("illegal"), []byte("bad system"), []byte("floating"), []byte("rc="), []byte(":11"), []byte("errno"), []byte("terminated"),
	[]byte("segment"), []byte("speicherz"), []byte("ochrony"), []byte("lütleme"), []byte("сегмент"), []byte("段"), []byte("セグ"), []byte("세그"), []byte("0x0000"), []byte("139"), []byte("159"), []byte("crashloop"), []byte("failed state"), []byte("back-off"),
}

func (g *logReader) relevant(text string) bool {
	g.lower = append(g.lower[:0], text...)
	for i, c := range g.lower {
		if c >= 'A' && c <= 'Z' {
			g.lower[i] = c + 'a' - 'A'
		}
	}
	return slices.ContainsFunc(words, func(w []byte) bool { return bytes.Contains(g.lower, w) })
}

// one reads a line that reports a crash; it returns false for other lines. A program's words do not count as the
// kernel's.
func (g *logReader) one(text string, by writer) bool {
	if l, ok := parseLine(text); ok && by != byProgram {
		l.Relayed = by == relayed || l.Relayed && by != byKernel
		if l.fromTrace && l.Program == "" {
			l.Exe = g.execs[l.PID]
			l.Program = commOf(l.Exe)
		}
		g.take(l, text)
		return true
	}
	if g.code(text) {
		return true
	}
	if c := more(text, g.o); c != nil {
		g.keep(c)
		return true
	}
	if g.reported(text) {
		return true
	}
	if e, crash, ok := endOf(text); ok {
		if crash && len(g.ends) < maxCrashes {
			g.ends = append(g.ends, e)
		}
		if len(g.units) < maxCrashes && (e.Unit != "" || strings.Contains(text, "code=")) {
			g.units[e.Unit] = true
		}
		return true
	}
	if m := unitResult().FindStringSubmatch(text); m != nil {
		if len(g.results) < maxCrashes {
			g.results = append(g.results, unitEnd{m[1] + m[2], strings.TrimSpace(text)})
		}
		return true
	}
	if pid, m := straced(straceExit(), text); m != nil {
		for _, e := range g.open {
			e.lived = e.lived || e.fromTrace && e.PID == pid
		}
		return true
	}
	pid, m := straced(straceExec(), text)
	if m == nil {
		return false
	}
	if len(g.execs) >= maxExecs || g.execs == nil {
		g.execs = map[int]string{}
	}
	g.execs[pid] = m["file"]
	return true
}

// reported reads a line of a crash report.
func (g *logReader) reported(text string) bool {
	if g.report == nil {
		g.report = &backtrace{}
	}
	for _, re := range []func() *regexp.Regexp{dumped, dumpPID} {
		if m := re().FindStringSubmatch(text); m != nil && g.report.open && m[1] != strconv.Itoa(g.report.pid) {
			g.report = &backtrace{} // a report about another process
		}
	}
	was := g.report.open
	if !g.report.line(text) {
		return false
	}
	if !was && len(g.reports) < maxCrashes {
		g.reports = append(g.reports, g.report)
	}
	return true
}

// finishReports adds the crashes that only reports and ends show. A crash whose line precedes its end is counted
// once.
func (g *logReader) finishReports() {
	known := map[int]int{}
	for _, c := range g.crashes {
		known[c.Signal] += c.Count
	}
	for _, b := range g.reports {
		c := b.crash()
		if c == nil {
			continue
		}
		if old := g.byPID(b.pid); old != nil {
			old.Executable = cmp.Or(old.Executable, b.exe)
			if b.caller != "" && old.Kind.Vsyscall() {
				old.note("the caller is in %s", b.caller)
			}
			if old.Kind != Unknown || c.Kind == Unknown {
				continue
			}
			*old = *c
			old.Input = g.input
			continue
		}
		known[c.Signal]++
		if c.Signal == 0 {
			known[sigsegv]++
		}
		g.keep(c)
	}
	rest := g.ends
	g.ends = nil
	for _, e := range rest {
		if s := e.Signal(); known[s] > 0 && !g.another(e) {
			known[s]--
			continue
		}
		g.ends = append(g.ends, e)
	}
}

// another reports whether an end names a program that none of the crashes with its signal has.
func (g *logReader) another(e Exited) bool {
	return e.Program != "" && !slices.ContainsFunc(g.crashes, func(c *Crash) bool {
		return c.Signal == e.Signal() && (c.Kind.Vsyscall() || c.Program == "" || c.Program == commOf(e.Program))
	})
}

// byPID returns the crash of a process, nil for none.
func (g *logReader) byPID(pid int) *Crash {
	for _, c := range g.crashes {
		if pid > 0 && slices.Contains(c.PIDs, pid) {
			return c
		}
	}
	return nil
}

func (g *logReader) take(l logLine, text string) {
	for i := len(g.open) - 1; i >= 0; i-- {
		if e := g.open[i]; e.joins(&l) {
			e.merge(&l, text)
			g.last = e
			return
		}
	}
	if len(g.open) == openCrashes {
		g.close(g.open[0])
		g.open = g.open[1:]
	}
	g.last = &event{logLine: l, lines: []string{text}}
	g.open = append(g.open, g.last)
}

// code reads the line with the code of the last crash.
func (g *logReader) code(text string) bool {
	if g.last == nil || !hasSHACode(text) {
		return false
	}
	g.last.sha = true
	return true
}

// joins reports whether l is about the same crash: the same process, and the same place if both have one.
func (e *event) joins(l *logLine) bool {
	if e.PID != l.PID || e.fromTrace || e.Program != l.Program || len(e.lines) == maxLines {
		return false
	}
	return l.vague() != e.vague() || !l.vague() && e.IP == l.IP && e.SP == l.SP && (e.kind == "") != (l.kind == "")
}

// merge adds the facts of another line about the same crash.
func (e *event) merge(l *logLine, text string) {
	e.lines = append(e.lines, text)
	if e.vague() || e.kind == "" && l.kind != "" && !l.vague() {
		old := e.logLine
		e.logLine = *l
		if old.When != "" {
			e.When = old.When
		}
		l = &old
	}
	e.Exe = cmp.Or(e.Exe, l.Exe)
	e.Where = cmp.Or(e.Where, l.Where)
	if !e.KnownFault && l.KnownFault {
		e.Fault, e.KnownFault = l.Fault, true
	}
}

func (g *logReader) close(e *event) {
	c := e.crash()
	if e.lived {
		c.Kind, c.Function = None, ""
		c.Meaning = fmt.Sprintf("The process handled the %s at %#x and exited by itself later: this was not a crash.", SignalName(int(e.Signal)), e.IP)
	}
	c.Source = KernelLog
	if e.Relayed && c.Kind != Unknown {
		c.Confidence = Likely
		c.note("the line does not have the form of the kernel's log: if a program wrote it, it may be about another crash")
	}
	if e.fromTrace {
		c.Source = TraceText
	}
	g.keep(c)
}

// keep adds a crash, or counts it with an equal one.
func (g *logReader) keep(c *Crash) {
	if g.each != nil {
		g.each(c)
		return
	}
	c.Input = g.input
	for _, old := range g.crashes {
		if old.alike(c) && old.Confidence == c.Confidence {
			old.Count++
			for _, pid := range c.PIDs {
				if len(old.PIDs) < maxPIDs && !slices.Contains(old.PIDs, pid) {
					old.PIDs = append(old.PIDs, pid)
				}
			}
			return
		}
	}
	if len(g.crashes) == maxCrashes {
		g.more++
		return
	}
	g.crashes = append(g.crashes, c)
}

func (g *logReader) finish(o Options) []*Crash {
	for _, e := range g.open {
		g.close(e)
	}
	g.open = nil
	if g.each == nil {
		g.finishReports()
	}
	for _, c := range g.crashes {
		c.fix(o, nil)
		c.conclude(o)
	}
	if g.more > 0 {
		c := g.crashes[len(g.crashes)-1]
		c.note("%d more crashes of other kinds are not shown", g.more)
	}
	return g.crashes
}

// alike reports whether two crashes differ only in their process. For a crash outside the page, the place does not
// matter.
func (c *Crash) alike(d *Crash) bool {
	return c.Program == d.Program && c.Kind == d.Kind && c.Function == d.Function &&
		(c.Executable == d.Executable || c.Executable == "" || d.Executable == "") && (c.Kind == Other || c.IP == d.IP || c.Function != "")
}

// crash judges the lines of an event.
func (e *event) crash() *Crash {
	c := &Crash{
		Count: 1, Program: e.Program, Executable: e.Exe, When: e.When, Signal: int(e.Signal),
		Fault: e.Fault, IP: e.IP, SP: e.SP, Known: Known{e.KnownFault, e.KnownIP, e.KnownSP}, Lines: e.lines,
	}
	if e.PID > 0 {
		c.PIDs = []int{e.PID}
	}
	switch {
	case e.sent:
		c.judge(evidence{signal: int(e.Signal), code: siUser, ip: e.IP})
	case e.vague():
		c.Kind = Other
		c.Meaning = fmt.Sprintf("It ended by %s, which the vsyscall page does not raise. This is not a vsyscall crash.", SignalName(int(e.Signal)))
		if e.Signal == sigsegv || e.Signal == sigsys {
			c.unknownEnd(SignalName(int(e.Signal)))
		}
		return c
	case e.kind == Misaligned:
		c.misaligned(e.IP)
	case e.kind == Read:
		at := e.Fault
		if !e.KnownFault {
			c.Kind = Read
			c.Meaning = fmt.Sprintf("The instruction at %#x reads the vsyscall page as data, which this kernel does not allow. "+
				"vfix fixes calls to the page, not reads of it; a kernel with vsyscall=emulate serves both.", e.IP)
			break
		}
		c.read(at, e.IP)
	case e.kind == Call || e.kind == Trap || e.kind == Filtered || e.kind == BadPointer || e.kind == BadStack:
		c.byMessage(e.kind)
	default:
		code := 1
		if !e.KnownFault {
			code = siKernel
		}
		if e.noIP && e.kind == "" {
			c.note("strace without -i does not print the address of the instruction; vfix assumes that it is the faulting address")
		}
		c.judge(evidence{signal: int(e.Signal), code: code, fault: e.Fault, ip: e.IP, stack: true})
		if c.Kind == Other && e.Where != "" {
			c.outside(int(e.Signal), e.IP, e.Where)
			c.inLibcrypto(e.Where, e.sha)
		}
	}
	return c
}

// byMessage judges by the kernel's message and the address.
func (c *Crash) byMessage(k Kind) {
	f, ok := find.FunctionAt(c.IP)
	if !ok {
		c.misaligned(c.IP)
		return
	}
	c.called(k, f)
	if k == Call {
		c.Page = pageAbsent
	}
}
