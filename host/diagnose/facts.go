// The facts of a text, in the order of its lines.

package diagnose

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/internal/textutil"
)

// textFacts are the facts of a text.
type textFacts struct {
	crashes []*Crash // as far as the text shows them, before they are judged
	// image, path and pod are those that were named last.
	image, path, pod string
	place            place
	suppressed       bool   // the kernel left out messages about the page
	schema1          string // the line of an engine that refuses a manifest
	lines            int

	previous  string // the line before
	continued string // lines before that end with a backslash
}

// maxCrashes bounds how many crashes are kept.
const maxCrashes = 10_000

// line takes the facts of one line.
func (t *textFacts) line(line string) {
	t.lines++
	if first, ok := strings.CutSuffix(line, "\\"); ok && len(t.continued) < maxLine {
		t.continued += first
		return
	}
	line, t.continued = journalMessage(t.continued+line), ""
	defer func() { t.previous = line }()
	lower := strings.ToLower(line)
	t.place = max(t.place, placeOf(lower))
	if f, ok := kernellog.Find(line); ok {
		if !f.OfVfix() {
			t.add(faulted(&f, line))
		}
		return
	}
	if strings.Contains(t.previous, "echo $?") && strings.TrimSpace(line) == "139" {
		t.ended(Crash{Status: segvStatus}, t.previous+" "+line)
		return
	}
	before := len(t.crashes)
	for i := range patterns {
		p := &patterns[i]
		if !strings.Contains(lower, p.hint) || (p.says == ends || p.says == said) && len(t.crashes) > before {
			continue
		}
		if m := p.re().FindStringSubmatch(line); m != nil {
			t.take(p, m, line)
		}
	}
}

// messageBytes matches the message of a journal in JSON that is not UTF-8.
var messageBytes = textutil.LazyRegexp(`"MESSAGE" ?: ?(\[[\d, ]+\])`)

// journalMessage returns the message of such a line, of which journalctl -o json writes each byte as a number, and any
// other line as it is.
func journalMessage(line string) string {
	if !strings.Contains(line, `"MESSAGE"`) {
		return line
	}
	m := messageBytes().FindStringSubmatch(line)
	var numbers []int16 // as []byte it would be base64
	if m == nil || json.Unmarshal([]byte(m[1]), &numbers) != nil {
		return line
	}
	message := make([]byte, len(numbers))
	for i, n := range numbers {
		message[i] = byte(n)
	}
	return string(message)
}

// faulted is the crash that a message of the kernel reports.
func faulted(f *kernellog.Fault, line string) *Crash {
	c := &Crash{fault: f, Program: f.Program, Path: f.Path, Evidence: []string{strings.TrimSpace(line)}}
	if f.PID > 0 {
		c.PIDs = []int{f.PID}
	}
	return c
}

// add records a crash, with the image that was named last if it has none.
func (t *textFacts) add(c *Crash) {
	if len(t.crashes) < maxCrashes {
		c.Count, c.Image = 1, cmp.Or(c.Image, t.image)
		t.crashes = append(t.crashes, c)
	}
}

// ended records the end of a program or container whose place is not known, only its status or signal.
func (t *textFacts) ended(c Crash, line string) {
	if t.place == builds && slices.ContainsFunc(t.crashes, func(c *Crash) bool { return c.fault == nil }) { // builders report a step that failed in several places
		return
	}
	c.Pod, c.Evidence = cmp.Or(c.Pod, t.pod), []string{strings.TrimSpace(line)}
	t.add(&c)
}

// stopped records that a debugger or tracer saw a process stopped at an address, in hex. A backtrace that is printed
// twice, or the signal and the first frame, are one crash.
func (t *textFacts) stopped(hex string, pid int, line string) {
	addr, _ := strconv.ParseUint(hex, 16, 64)
	known := slices.ContainsFunc(t.crashes, func(old *Crash) bool {
		return old.traced && old.fault.PID == pid && (old.fault.IP == addr || inPage(old.fault.IP))
	})
	if !known {
		c := faulted(&kernellog.Fault{Message: kernellog.Segfault, PID: pid, Signal: sigsegv, IP: addr, Addr: addr, HasAddr: true}, line)
		c.traced, c.Path = true, t.path
		t.add(c)
	}
}

// segvStatus is the exit status of a program that SIGSEGV ended, as shells and engines report it.
const segvStatus = 128 + sigsegv

// connecting are words that connect others in sentences, and are rare in messages of programs.
var connecting = textutil.LazyRegexp(`(?i)\b(?:the|an?|is|are|was|were|its?|that|this|these|which|because|and|but|we|I|you|my|our|not|or|where|when|there|they|please)\b`)

// isProse reports whether a line is a sentence, or a part of one, by its number of words and of those that connect
// others. So is a row of a table in Markdown.
func isProse(line string) bool {
	if line = strings.TrimSpace(line); strings.HasPrefix(line, "| ") && strings.HasSuffix(line, " |") {
		return true
	}
	const leastWords, leastConnecting = 8, 2
	return len(strings.Fields(line)) >= leastWords && len(connecting().FindAllString(line, leastConnecting)) == leastConnecting
}
