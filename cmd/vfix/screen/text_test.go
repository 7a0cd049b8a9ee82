package screen

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for what, want := range map[string]string{"file": "2 files", "crash": "2 crashes"} {
		if got := Count(2, what); got != want || Count(1, what) != "1 "+what {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The cells of a table are below each other, and rows beyond the first few are counted.
func TestTable(t *testing.T) {
	const row = "12     usr/lib/\\x1b[31m.so\n"
	for n, want := range map[int]string{2: row + row, Few + 3: strings.Repeat(row, Few) + "3 more; --format json lists all\n"} {
		var b bytes.Buffer
		Stream{Writer: &b}.FewRows([]string{"SITES", "FILE"}, slices.Repeat([][]string{{"12", "usr/lib/\x1b[31m.so"}}, n))
		if got := b.String(); got != "SITES  FILE\n"+want {
			t.Errorf("%d rows: got\n%s", n, got)
		}
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
		o.Err.width = width
		o.Warn("one two three four five six seven\\neight")
		if got := stderr.String(); got != want {
			t.Errorf("width %d: got %q, want %q", width, got, want)
		}
	}
}

// Progress of long work on a terminal is one line that messages replace; elsewhere a line now and then.
func TestProgress(t *testing.T) {
	for width, want := range map[int]string{
		0:  "vfix: read x: 1.0 MiB of 3.0 MiB\nvfix: a note\n",
		80: "\r\x1b[Kvfix: read x: 1.0 MiB of 3.0 MiB\r\x1b[Kvfix: a note\n",
	} {
		var stderr bytes.Buffer
		o := New(&bytes.Buffer{}, &stderr)
		o.Err.width = width
		work := o.Start("read", "x", 3<<20).(*task)
		work.Add(0) // too early
		work.next = work.next.Add(-work.pause)
		work.Add(1 << 20)
		o.Note("a note")
		work.Done()
		if got := stderr.String(); got != want {
			t.Errorf("width %d: got %q, want %q", width, got, want)
		}
	}
	var stderr bytes.Buffer
	o := New(&bytes.Buffer{}, &stderr)
	o.Quiet = true
	o.Start("read", "x", 1).Add(1)
	o.Note("x")
	if stderr.Len() > 0 {
		t.Errorf("quiet: got %q", stderr.String())
	}
}
