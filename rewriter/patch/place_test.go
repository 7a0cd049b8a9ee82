package patch

import (
	"bytes"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/find"
)

// TestLook finds the shortest call that ends at the address, and lists what is before it in its function, or in a long one a
// few bytes.
func TestLook(t *testing.T) {
	nops := func(n int) string { return strings.Repeat("90", n) }
	for _, c := range []struct {
		name, code  string
		known       bool // the start of the function
		call, first int  // offsets of the call and of the listing; -1: none
	}{
		{"a register", "90 ffd0", false, 1, 1},
		{"a register of 64 bits alone", "90 41ffd1", false, 1, 1},
		{"at the beginning", "ffd0", false, 0, 0},
		{"memory", "90 ff5008", false, 1, 1},
		{"a variable", "90 ff1544332211", false, 1, 1},
		{"an element", "90 ff94d878563412", false, 1, 1},
		{"a function", "90 e810000000", false, 1, 1},
		{"a function, behind what may be a prefix", "4883ec48 e810000000", false, 4, 4},
		{"with two prefixes", "2e4066e844332211", false, 3, 3},
		{"a jump", "90 ffe0", false, -1, -1},
		{"a call before it", "ffd0 90", false, -1, -1},
		{"in a known function", "90 ffd0", true, 1, 0},
		{"in a longer one", nops(62) + "ffd0", true, 62, 0},
		{"in one that is too long", nops(63) + "ffd0", true, 63, 41},
		{"in a function that is not known", nops(62) + "ffd0", false, 62, 62},
		{"in one that another instruction seems to end", "06 90 ffd0", true, 2, 2},
		{"in another instruction", "90 b8ffd0ffd0", true, 4, 4},
	} {
		e := testELF{dyn: true, dynamic: true, text: asm(t, c.code)}
		ret := e.textVaddr() + uint64(len(e.text))
		if e.entry = ret; c.known {
			e.symbols = []testSym{{"f", e.textVaddr(), uint64(len(e.text)), 2, 1}}
		}
		e.text = append(e.text, asm(t, strings.Repeat("90", 32))...)
		file := e.build()
		p, err := find.Look(bytes.NewReader(file), int64(len(file)), testTextOff+ret-e.textVaddr())
		if err != nil || p.Vaddr != ret || (p.Call == nil) != (c.call < 0) || (p.Start == e.textVaddr()) != c.known {
			t.Errorf("%s: got %+v, %v", c.name, p, err)
		} else if c.call >= 0 && (p.Call.Vaddr != e.textVaddr()+uint64(c.call) || p.Lines[0].Vaddr != e.textVaddr()+uint64(c.first) || p.Lines[len(p.Lines)-1].Vaddr != ret+15) {
			t.Errorf("%s: got %+v at %#x in %+v", c.name, p.Call, p.Call.Vaddr-e.textVaddr(), p.Lines)
		}
	}
}

// TestLookElsewhere: an address outside code, or a file that is not for vfix, is reported.
func TestLookElsewhere(t *testing.T) {
	e := testELF{text: []byte{0xc3}}
	file := e.build()
	for name, c := range map[string]struct {
		b      []byte
		offset uint64
		says   string
	}{
		"text":    {[]byte("text"), 0, "not an ELF file"},
		"start":   {file, 0, "no code"},
		"far off": {file, 1 << 60, "no code"},
	} {
		p, err := find.Look(bytes.NewReader(c.b), int64(len(c.b)), c.offset)
		if err != nil || !strings.Contains(p.Skipped.String(), c.says) || p.Call != nil {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
}

// FuzzLook: Look ends for any file, without a panic.
func FuzzLook(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, offset uint64) {
		p, err := find.Look(bytes.NewReader(b), int64(len(b)), offset)
		if err != nil || p == nil {
			t.Fatalf("got %v, %v", p, err)
		}
	})
}
