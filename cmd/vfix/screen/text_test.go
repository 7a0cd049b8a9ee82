package screen

import (
	"bytes"
	"testing"
)

func TestCount(t *testing.T) {
	for what, want := range map[string]string{"file": "2 files", "crash": "2 crashes", "entry": "2 entries"} {
		if got := Count(2, what); got != want || Count(1, what) != "1 "+what {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The cells of a table are below each other, and what does not fit into Most rows is counted.
func TestTable(t *testing.T) {
	table := Table{Head: []string{"SITES", "FILE"}, Most: 2}
	for range 3 {
		table.Add([]string{"12", "usr/lib/\x1b[31m.so"})
	}
	const row = "12     usr/lib/\\x1b[31m.so\n"
	var b bytes.Buffer
	table.Write(&b, Stream{})
	if got, want := b.String(), "SITES  FILE\n"+row+row+"1 more; --format json lists all\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A message wraps on a terminal, its further lines under the first; elsewhere it is one line.
func TestMessages(t *testing.T) {
	for width, want := range map[int]string{
		0:  "vfix: warning: one two three four five six seven\\neight\n",
		40: "vfix: warning: one two three four five\n      six seven\\neight\n",
	} {
		var stderr bytes.Buffer
		o := New(&bytes.Buffer{}, &stderr)
		o.Err.Width = width
		o.Warn("one two three four five six seven\\neight")
		if got := stderr.String(); got != want {
			t.Errorf("width %d: got %q, want %q", width, got, want)
		}
	}
}

// Progress on a terminal is one line that messages replace; elsewhere a line for each piece of work.
func TestProgress(t *testing.T) {
	for tty, want := range map[bool]string{
		false: "vfix: read x (3.0 MiB)\nvfix: a note\n",
		true:  "\r\x1b[Kvfix: read x: 1.0 MiB of 3.0 MiB\r\x1b[Kvfix: a note\n",
	} {
		var stderr bytes.Buffer
		o := New(&bytes.Buffer{}, &stderr)
		if tty {
			o.Err = Stream{Tty: true, Width: 80}
		}
		p := o.Progress()
		work := p.Start("read", "x", 3<<20).(*task)
		if tty {
			work.next = work.next.Add(-changeInterval)
		}
		work.Add(1 << 20)
		p.Note("a note")
		work.Done()
		if got := stderr.String(); got != want {
			t.Errorf("terminal %v: got %q, want %q", tty, got, want)
		}
	}
	o := New(&bytes.Buffer{}, &bytes.Buffer{})
	o.Quiet = true
	o.Progress().Start("read", "x", 1).Add(1)
	o.Note("x")
	if got := o.Stderr.(*bytes.Buffer).String(); got != "" {
		t.Errorf("quiet: got %q", got)
	}
}
