// Progress on stderr: on a terminal one line that changes, elsewhere a line for each piece of work.

package screen

import (
	"fmt"
	"sync"
	"time"

	"vfix.dev/vfix/internal/progress"
)

// reporter shows on stderr what packages do; nothing with -q.
type reporter struct{ out *Output }

// Progress is the reporter of a verb.
func (o *Output) Progress() progress.Reporter { return reporter{o} }

// Note implements progress.Reporter.
func (r reporter) Note(format string, args ...any) { r.out.Note(format, args...) }

// Debug prints a line for debugging, with -v.
func (r reporter) Debug(format string, args ...any) {
	if r.out.Verbose {
		r.out.Say("debug:", r.out.Err.Paint.Dim, fmt.Sprintf(format, args...))
	}
}

// Start implements progress.Reporter.
func (r reporter) Start(kind, name string, size int64) progress.Task {
	if r.out.Quiet {
		return progress.Silent{}
	}
	t := &task{out: r.out, what: kind + " " + shorten(Printable(name)), size: size, next: time.Now().Add(lineInterval)}
	switch {
	case r.out.Err.Tty:
		t.next = time.Now().Add(changeInterval)
	case size >= 0:
		r.out.Note("%s (%s)", t.what, Size(size))
	default:
		r.out.Note("%s", t.what)
	}
	return t
}

// How long a piece of work waits for its next line, and for the next change of the line on a terminal.
const lineInterval, changeInterval = 10 * time.Second, 100 * time.Millisecond

// task is one piece of work. Several goroutines may call it.
type task struct {
	out  *Output
	what string
	size int64 // < 0: not known

	mu   sync.Mutex
	done int64
	next time.Time
}

// Add counts bytes that are done.
func (t *task) Add(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += n
	if now := time.Now(); now.Before(t.next) {
		return
	} else if t.out.Err.Tty {
		t.next = now.Add(changeInterval)
		t.show(false)
	} else {
		t.next = now.Add(lineInterval)
		t.out.Note("%s", t.text())
	}
}

// Done removes the line from the terminal.
func (t *task) Done() {
	if t.out.Err.Tty {
		t.show(true)
	}
}

func (t *task) text() string {
	if t.size > 0 {
		return fmt.Sprintf("%s: %s of %s", t.what, Size(t.done), Size(t.size))
	}
	return fmt.Sprintf("%s: %s", t.what, Size(t.done))
}

// show replaces the changing line of the terminal, or removes it.
func (t *task) show(done bool) {
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if text := Prefix + t.text(); !done && len(text) < t.out.Err.Width {
		fmt.Fprint(t.out.Stderr, clear+text)
		t.out.transit = true
	} else if t.out.transit {
		fmt.Fprint(t.out.Stderr, clear)
		t.out.transit = false
	}
}

// shorten cuts a name to what a line has room for; of a path the end says more than the beginning.
func shorten(s string) string {
	const width = 40
	if r := []rune(s); len(r) > width {
		return "..." + string(r[len(r)-width+3:])
	}
	return s
}
