package textutil

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
		got := QuotePath(name)
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
	line := QuoteWords(words)
	out, err := exec.Command("bash", "-c", "printf '%s\\0' "+line).Output()
	if got := strings.Split(string(out), "\x00"); err != nil || !slices.Equal(got[:len(got)-1], words) {
		t.Errorf("a shell reads %q of %s, %v", got, line, err)
	}
}

// TestQuoted: words as they are written.
func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"": "''", "a": "a", "Z9": "Z9", "/a.b_c-d+e@f%g": "/a.b_c-d+e@f%g", "docker://a:1,b=c": "docker://a:1,b=c",
		"a b": "'a b'", "a'b": `'a'\''b'`, "~": "'~'", "{": "'{'", "\x7f": `$'\177'`, "é": "'é'", "٣": "'٣'", "日本": "'日本'",
		"a\nb": `$'a\012b'`, "it's\n": `$'it\'s\012'`, "a\\\n": `$'a\\\012'`, "\xff": `$'\377'`, "é\xff": `$'\303\251\377'`, "\ufffd": "'\ufffd'", "\ufffd\n": `$'\357\277\275\012'`,
		"\u2028": `$'\342\200\250'`,
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
	for name, want := range map[string]string{"-": "-", "-a": "./-a", "a-": "a-", "--": "./--", "-a b": "'./-a b'"} {
		if got := QuotePath(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

func TestCopyName(t *testing.T) {
	for name, want := range map[string]string{"/srv/muscle": "muscle.vfix", "-i": "i.vfix", "../.hidden": "hidden.vfix", ".": "fixed", "/": "fixed", "a b/": "a b.vfix"} {
		if got := CopyName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
