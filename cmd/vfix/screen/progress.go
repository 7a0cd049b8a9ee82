// Progress on stderr, of work that takes long: on a terminal one line that changes, elsewhere a line now and then.

package screen

import (
	"fmt"
	"sync"
	"time"

	"vfix.dev/vfix/internal/progress"
)

// Debug prints a line for debugging, with -v.
func (o *Output) Debug(format string, args ...any) {
	if o.Verbose {
		o.Say("debug:", o.Err.Paint.Dim, fmt.Sprintf(format, args...))
	}
}

// Start implements progress.Reporter: it shows on stderr what packages do; nothing with -q.
func (o *Output) Start(kind, name string, size int64) progress.Task {
	if o.Quiet {
		return progress.Silent{}
	}
	t := &task{out: o, what: kind + " " + Printable(name), size: size, pause: lineInterval}
	if o.Err.width > 0 {
		t.pause = changeInterval
	}
	t.next = time.Now().Add(t.pause)
	o.Debug("%s", t.what)
	return t
}

// lineInterval is how long a piece of work may take before a line says so, and then between two lines; changeInterval
// is the same for the line on a terminal that changes.
const lineInterval, changeInterval = 10 * time.Second, 100 * time.Millisecond

// task is one piece of work. Several goroutines may call it.
type task struct {
	out   *Output
	what  string
	size  int64 // < 0: not known
	pause time.Duration

	mu   sync.Mutex
	done int64
	next time.Time
}

// Add counts bytes that are done.
func (t *task) Add(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += n
	now := time.Now()
	if now.Before(t.next) {
		return
	}
	t.next = now.Add(t.pause)
	text := t.what + ": " + Size(t.done)
	if t.size > 0 {
		text += " of " + Size(t.size)
	}
	if t.out.Err.width > 0 {
		t.out.passing(text)
	} else {
		t.out.Note("%s", text)
	}
}

// Done removes the line from the terminal.
func (t *task) Done() { t.out.passing("") }

// passing replaces the changing line of the terminal, as far as it fits; "" removes it.
func (o *Output) passing(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if text != "" {
		line := []rune(Prefix + text)
		fmt.Fprint(o.Err, clear+string(line[:min(len(line), o.Err.width-1)]))
	} else if o.transit {
		fmt.Fprint(o.Err, clear)
	}
	o.transit = text != ""
}
