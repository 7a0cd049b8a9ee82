// Text for people.

package screen

import (
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

func TestHumanSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 220 << 20: "220.0 MiB",
		3 << 30: "3.0 GiB", 2 << 40: "2.0 TiB", 5000 << 40: "5000.0 TiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

// On a narrow terminal nothing but a single word is longer than a line, and no word is broken.
func TestNarrow(t *testing.T) {
	s := Stream{Width: 40}
	table := &Table{Head: []string{"FILE", "LAYER", "LIBC", "FUNCTION", "SITES", "PATCH"}, Right: 4}
	table.Add([]string{"usr/lib/libc.so.6", "0 0123456789ab", "glibc 2.13", "gettimeofday", "12", "lea"})
	table.Add([]string{"", "", "", "time", "1", "entry"})
	var b strings.Builder
	table.Write(&b, s)
	s.Say(&b, "\x1b[32m4 call sites can be patched\x1b[0m (2 entry, 2 lea), and so on")
	want := "usr/lib/libc.so.6\n    LAYER 0 0123456789ab; LIBC glibc\n    2.13; FUNCTION gettimeofday; SITES\n    12; PATCH lea\n    FUNCTION time; SITES 1; PATCH entry\n" +
		"\x1b[32m4 call sites can be patched\x1b[0m (2 entry, 2\nlea), and so on\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	for line := range strings.Lines(b.String()) {
		if n := runewidth.StringWidth(escapes().ReplaceAllString(strings.TrimSpace(line), "")); n > 40 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
