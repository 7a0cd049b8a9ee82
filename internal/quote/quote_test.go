package quote

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestPath: a shell reads back every name, also those that are not text, and nothing that it prints is taken by
// a terminal or for an option.
func TestPath(t *testing.T) {
	for _, name := range []string{"a b", "$(id)", "a'b", "a\nb", "\xff", "\xff\n\xfe'", "\x1b[31m", "\ufffd", "-i", "--", "~", "*"} {
		got := Path(name)
		want := name
		if name[0] == '-' {
			want = "./" + name
		}
		out, err := exec.Command("bash", "-c", "printf %s "+got).Output()
		if err != nil || string(out) != want {
			t.Errorf("%q: the shell reads %q of %s, %v", name, out, got, err)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Errorf("%q: %q is printed", name, got)
			}
		}
	}
}

// TestWords: a shell takes a command line apart into the words again.
func TestWords(t *testing.T) {
	words := []string{"vfix", "a b", "", "x=y", "\x1b[31m", "it's", "new\nline", "\xfe"}
	line := Words(words)
	out, err := exec.Command("bash", "-c", "printf '%s\\0' "+line).Output()
	if got := strings.Split(string(out), "\x00"); err != nil || !slices.Equal(got[:len(got)-1], words) {
		t.Errorf("a shell reads %q of %s, %v", got, line, err)
	}
}
