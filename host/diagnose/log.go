package diagnose

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"vfix.dev/vfix/rewriter"
)

// A kernel log, or one line of it. Lines about the same process are one crash; crashes that
// are the same but for their process are counted.

const (
	// maxLogLine is the longest line that is looked at, in bytes; what is longer is passed
	// over. The kernel's own are below 1 KiB.
	maxLogLine = 64 << 10
	// maxCrashes is how many different crashes of a log are told apart.
	maxCrashes = 1000
	// openCrashes is how many processes' lines are waited for: the lines of one crash follow
	// each other, but for those of other processors between them.
	openCrashes = 64
)

// event is the lines about one process.
type event struct {
	logLine
	lines []string
}

// logReader gathers crashes from lines.
type logReader struct {
	open    []*event
	crashes []*Crash
	more    int // crashes beyond maxCrashes
	input   string
	source  Source
}

// Log diagnoses the crashes that a log tells of, oldest first; lines is how many lines it
// has. None is no error.
func Log(input string, r io.Reader, o Options) (crashes []*Crash, lines int, err error) {
	g := &logReader{input: input, source: KernelLog}
	lines, err = g.read(r)
	if err != nil {
		return nil, lines, fmt.Errorf("%s: %w", input, err)
	}
	return g.finish(o), lines, nil
}

// read takes in all lines.
func (g *logReader) read(r io.Reader) (lines int, err error) {
	br := bufio.NewReaderSize(r, maxLogLine)
	skip := false
	for {
		b, err := br.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if len(b) > 0 && !skip && !long {
			g.line(strings.TrimRight(string(b), "\r\n"))
		}
		if !long && len(b) > 0 {
			lines++
		}
		skip = long
		if err == io.EOF {
			return lines, nil
		}
		if err != nil && !long {
			return lines, err
		}
	}
}

func (g *logReader) line(text string) {
	l, ok := parseLine(text)
	if !ok {
		return
	}
	for i := len(g.open) - 1; i >= 0; i-- {
		if e := g.open[i]; e.joins(&l) {
			e.merge(&l, text)
			return
		}
	}
	if len(g.open) == openCrashes {
		g.close(g.open[0])
		g.open = g.open[1:]
	}
	g.open = append(g.open, &event{l, []string{text}})
}

// joins reports whether l tells of the same crash: of the same process, and the same place
// where both say it.
func (e *event) joins(l *logLine) bool {
	if e.pid != l.pid || e.program != l.program || len(e.lines) == maxLines {
		return false
	}
	return l.vague != e.vague || !l.vague && e.ip == l.ip && e.sp == l.sp && (e.kind == "") != (l.kind == "")
}

// merge adds what another line knows of the same crash.
func (e *event) merge(l *logLine, text string) {
	e.lines = append(e.lines, text)
	if e.vague || e.kind == "" && l.kind != "" && !l.vague {
		old := e.logLine
		e.logLine = *l
		if old.when != "" {
			e.when = old.when
		}
		l = &old
	}
	if e.exe == "" {
		e.exe = l.exe
	}
	if e.where == "" {
		e.where = l.where
	}
	if !e.known.Fault && l.known.Fault {
		e.fault, e.known.Fault = l.fault, true
	}
}

// close makes a crash of an event, or counts it with one that is the same.
func (g *logReader) close(e *event) {
	c := e.crash()
	c.Input, c.Source = g.input, g.source
	for _, old := range g.crashes {
		if old.alike(c) {
			old.Count++
			if len(old.PIDs) < maxPIDs && !slices.Contains(old.PIDs, e.pid) {
				old.PIDs = append(old.PIDs, e.pid)
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
	for _, c := range g.crashes {
		c.fix(o, nil)
	}
	if g.more > 0 {
		c := g.crashes[len(g.crashes)-1]
		c.note("%d more crashes of other kinds are not shown", g.more)
	}
	return g.crashes
}

// alike reports whether two crashes differ in their process only. Where a crash has nothing
// to do with the page, where it was does not matter.
func (c *Crash) alike(d *Crash) bool {
	return c.Program == d.Program && c.Kind == d.Kind && c.Function == d.Function &&
		(c.Executable == d.Executable || c.Executable == "" || d.Executable == "") && (c.Kind == Other || c.IP == d.IP || c.Function != "")
}

// crash judges what the lines say.
func (e *event) crash() *Crash {
	c := &Crash{
		Count: 1, PIDs: []int{e.pid}, Program: e.program, Executable: e.exe, When: e.when, Signal: e.signal,
		Fault: e.fault, IP: e.ip, SP: e.sp, Known: e.known, Lines: e.lines,
	}
	switch {
	case e.vague:
		c.Kind = Other
		c.Meaning = fmt.Sprintf("It ended by %s. This line does not tell where, so nothing is known of the cause.", SignalName(e.signal))
		return c
	case e.kind == Misaligned:
		c.misaligned(e.ip)
	case e.kind == Read:
		at := e.fault
		if !e.known.Fault {
			c.Kind = Read
			c.Meaning = fmt.Sprintf("The instruction at %#x reads the vsyscall page as data, which this kernel does not allow. "+
				"vfix mends calls of the page, not reads of it; a kernel with vsyscall=emulate serves both.", e.ip)
			break
		}
		c.read(at, e.ip)
	case e.kind == Call || e.kind == Filtered || e.kind == BadPointer || e.kind == BadStack:
		c.byMessage(e.kind)
	default:
		code := 1
		if !e.known.Fault {
			code = siKernel
		}
		c.judge(evidence{signal: e.signal, code: code, fault: e.fault, ip: e.ip, stack: true})
		if c.Kind == Other && e.where != "" {
			c.Meaning = fmt.Sprintf("It ended by %s at %#x in %s, outside the vsyscall page. This is no vsyscall crash.", SignalName(e.signal), e.ip, e.where)
		}
	}
	return c
}

// byMessage judges by the kernel's own words, and the address.
func (c *Crash) byMessage(k Kind) {
	f, ok := rewriter.FunctionAt(c.IP)
	if !ok {
		c.misaligned(c.IP)
		return
	}
	c.called(k, f)
	if k == Call {
		c.Page = "not mapped"
	}
}
