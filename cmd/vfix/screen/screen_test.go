// Names from untrusted files cannot write to a terminal; when there is color.

package screen

import (
	"testing"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"usr/lib/ä b.so":     "usr/lib/ä b.so",
		"a\x1b[2Jb":          `a\x1b[2Jb`,
		"line\nbreak\ttab":   `line\nbreak\ttab`,
		"bad\xff\xfeutf":     `bad\xff\xfeutf`,
		"right\u202eleft":    `right\u202eleft`,
		"c1 \u009b31m":       `c1 \u009b31m`,
		"\"quoted\" back\\s": "\"quoted\" back\\s",
		"real \ufffd":        "real \ufffd",
	} {
		if got := Printable(in); got != want {
			t.Errorf("printable(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestColored(t *testing.T) {
	for _, c := range []struct {
		noColor, term string
		want          bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", c.term)
		if got := colored(); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}
