package patch

import (
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

func TestAddedCalls(t *testing.T) {
	const appended = ".note.appended" // something follows the file: there is no room
	for _, c := range []struct {
		name string
		e    testELF
		text string
		want string // the calls, each line's words after the colon
	}{
		{"a program", testELF{}, timeStubText, "mprotect, twice | time"},
		{"a library", testELF{dyn: true, dynamic: true, soname: "l", extra: []elf.Dyn{{Tag: elf.DTInit, Val: testTextOff}}}, timeStubText, "mprotect, twice | prctl | time"},
		{"two functions", testELF{}, movRaxTime + callRax + movRaxGtod + callRax + "c3", "mprotect, twice | time, gettimeofday"},
		{"no room", testELF{noteSection: appended}, "53" + movRaxTime + callRax + "5b" + setsAll + "c3", "time"},
		{"nothing to patch", testELF{}, "c3", ""},
	} {
		c.e.text = asm(t, c.text)
		c.e.symbols = []testSym{{"f", c.e.textVaddr(), uint64(len(c.e.text)), elf.STTFunc, 1}}
		file := c.e.build()
		if c.e.noteSection == appended {
			file = append(file, "PK\x05\x06 an archive"...)
		}
		lines := planFile(t, file, Options{Explain: true}).Added
		var got []string
		for _, l := range lines {
			_, calls, _ := strings.Cut(l, ": ")
			calls, _, _ = strings.Cut(calls, " (")
			calls, _, _ = strings.Cut(calls, ";")
			got = append(got, calls)
		}
		if s := strings.Join(got, " | "); s != c.want {
			t.Errorf("%s: got %q, want %q", c.name, s, c.want)
		}
	}
}
