// The facts of a text, in the order of its lines.

package diagnose

import (
	"slices"
	"strconv"
	"strings"

	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/internal/textutil"
)

// fault is the place at which a process was stopped, by a message of the kernel, or of a debugger or tracer.
type fault struct {
	kernellog.Fault
	traced bool // a debugger or tracer reported it
	image  string
	path   string // of the program, "" for the one that the text names last
	line   string
}

// end is the end of a program or container whose place is not known, only its status or signal.
type end struct {
	status                    int // 0 for a signal without a status
	container, pod, image, id string
	path                      string   // of the program
	mounts                    []string // directories of the image's libraries over which those of the host are mounted
	cause                     string   // another cause, "" for none
	running                   bool
	line                      string
	served                    bool // the kernel that it ran on serves the page
	kernel                    []fault
}

// facts are the facts of a text.
type textFacts struct {
	faults []fault
	ends   []end
	// image, path and pod are those that were named last.
	image, path, pod string
	place            place
	suppressed       bool   // the kernel left out messages about the page
	schema1          string // the line of an engine that refuses a manifest
	cause, causeLine string // another cause
	lines            int

	previous  string // the line before
	continued string // lines before that end with a backslash
}

// maxFacts bounds how many facts of each kind are kept.
const maxFacts = 10_000

// line takes the facts of one line.
func (t *textFacts) line(line string) {
	t.lines++
	if first, ok := strings.CutSuffix(line, "\\"); ok && len(t.continued) < maxLine {
		t.continued += first
		return
	}
	line, t.continued = t.continued+line, ""
	defer func() { t.previous = line }()
	lower := strings.ToLower(line)
	t.place = max(t.place, placeOf(lower))
	if f, ok := kernellog.Find(line); ok {
		if !f.OfVfix() {
			t.fault(fault{Fault: f, image: t.image, line: line})
		}
		return
	}
	if t.previous != "" && strings.Contains(t.previous, "echo $?") && t.answer(line) {
		return
	}
	ended := len(t.ends)
	for i := range patterns {
		p := &patterns[i]
		if !strings.Contains(lower, p.hint) || p.ends && len(t.ends) > ended {
			continue
		}
		if m := p.re().FindStringSubmatch(line); m != nil {
			p.take(t, m, line)
		}
	}
	if t.cause != "" || len(t.ends) > ended {
		return
	}
	for i := range causes {
		c := &causes[i]
		if slices.ContainsFunc(c.hints, func(h string) bool { return strings.Contains(lower, h) }) && c.re().MatchString(line) && !t.inProse(line) {
			t.cause, t.causeLine = c.name, line
			return
		}
	}
}

func (t *textFacts) fault(f fault) {
	if len(t.faults) < maxFacts {
		t.faults = append(t.faults, f)
	}
}

// ended records an end.
func (t *textFacts) ended(e end, line string) {
	if len(t.ends) >= maxFacts {
		return
	}
	e.line = strings.TrimSpace(line)
	if e.image == "" {
		e.image = t.image
	}
	if e.pod == "" {
		e.pod = t.pod
	}
	if t.place == builds && len(t.ends) > 0 { // builders report a step that failed in several places
		return
	}
	t.ends = append(t.ends, e)
}

// said records an end if the line is the message of a program and not a sentence of prose.
func (t *textFacts) said(e end, line string) {
	if !t.inProse(line) {
		t.ended(e, line)
	}
}

// stopped records that a debugger or tracer saw a process stopped at an address, in hex. A backtrace that is printed
// twice, or the signal and the first frame, are one crash.
func (t *textFacts) stopped(hex string, pid int, line string) {
	addr, _ := strconv.ParseUint(hex, 16, 64)
	f := kernellog.Fault{Message: kernellog.Segfault, PID: pid, Signal: sigsegv, IP: addr, Addr: addr, HasAddr: true}
	known := slices.ContainsFunc(t.faults, func(old fault) bool {
		return old.traced && old.PID == pid && (old.IP == addr || inPage(old.IP))
	})
	if !known {
		t.fault(fault{Fault: f, traced: true, image: t.image, path: t.path, line: line})
	}
}

// answer records the answer of a shell to "echo $?".
func (t *textFacts) answer(line string) bool {
	if strings.TrimSpace(line) != "139" {
		return false
	}
	t.ended(end{status: segvStatus}, t.previous+" "+line)
	return true
}

// segvStatus is the exit status of a program that SIGSEGV ended, as shells and engines report it.
const segvStatus = 128 + sigsegv

// connecting are words that connect others in sentences, and are rare in messages of programs.
var connecting = textutil.LazyRegexp(`(?i)\b(?:the|an?|is|are|was|were|its?|that|this|these|which|because|and|but|we|I|you|my|our|not|or|where|when|there|they|please)\b`)

// inProse reports whether a line is a sentence, or continues one: then a status in it is spoken of.
func (t *textFacts) inProse(line string) bool { return isProse(line) || isProse(t.previous) }

// isProse reports whether a line is a sentence, or a part of one, by its number of words and of those that connect
// others. So is a row of a table in Markdown.
func isProse(line string) bool {
	if line = strings.TrimSpace(line); strings.HasPrefix(line, "| ") && strings.HasSuffix(line, " |") {
		return true
	}
	const leastWords, leastConnecting = 8, 2
	return len(strings.Fields(line)) >= leastWords && len(connecting().FindAllString(line, leastConnecting)) == leastConnecting
}
