package patch

import (
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
)

// TestGraph is about the successors of calls and jumps: the value is followed there, and so is the result of a
// callee.
func TestGraph(t *testing.T) {
	const at = testTextOff
	const second = 0x40 // where another function is
	fill := func(text, other string) string {
		n := len(asm(t, text))
		return text + strings.Repeat("cc", second-n) + other
	}
	whole := []testSym{{"f", at, second, elf.STTFunc, 1}}
	two := append(whole[:1:1], testSym{"g", at + second, 0x20, elf.STTFunc, 1})
	const hoisted = "53 48c7c3 000460ff" // push %rbx; mov $time,%rbx: 8 bytes
	for _, c := range []struct {
		name, text string
		e          testELF
		pads       []elf.Pad // of f, relative to it
		verdict    Verdict
		calls      int
		reason     string // part of it
	}{
		{"called in the handler of an exception alone", hoisted + "e833000000 31db 5b c3 ffd3 ebf8", testELF{symbols: two}, []elf.Pad{{Start: 8, End: 13, At: 17}}, Live, 1, "called"},
		{"called before, and in the handler", hoisted + "ffd3 e831000000 31db 5b c3 ffd3 ebf8", testELF{symbols: two}, []elf.Pad{{Start: 10, End: 15, At: 19}}, Live, 2, "called"},
		{"compared in the handler", hoisted + "ffd3 e831000000 5b c3 4839c3 ebf9", testELF{symbols: two}, []elf.Pad{{Start: 10, End: 15, At: 17}}, Unknown, 1, "compared"},
		{"in a register that an exception does not keep", "48c7c1 000460ff e834000000 c3 ffd1 c3", testELF{symbols: two}, []elf.Pad{{Start: 7, End: 12, At: 13}}, Unknown, 0, "left in a register"},
		{"the call of another range", hoisted + "ffd3 e831000000 5b c3 4839c3 ebf9", testELF{symbols: two}, []elf.Pad{{Start: 8, End: 10, At: 17}}, Unknown, 1, "compared"},

		{"a second entry behind a call", fill(hoisted+"e8"+"33000000"+"ffd3 5b c3", "c3"), testELF{symbols: append(two, testSym{"entry", at + 13, 4, elf.STTFunc, 1})}, nil, Live, 1, "called"},
		{"behind a callee that ends the program", fill(hoisted+"85ff 7404 ffd3 5b c3 e82b000000 4839c3", "f4 ebfd"), testELF{symbols: two}, nil, Live, 1, "called"},
		{"behind one that may return", fill(hoisted+"85ff 7404 ffd3 5b c3 e82b000000 4839c3 5b c3", "7401 c3 f4 ebfd"), testELF{symbols: two}, nil, Unknown, 1, "compared"},

		{"compared by the callee", fill("48c7c7 000460ff e834000000 c3", "4839f7 31ff c3"), testELF{symbols: two}, nil, Unknown, 0, "compared"},
		{"compared, and left for the caller", "48c7c1 000460ff 4839f9 c3", testELF{symbols: whole}, nil, Unknown, 0, "left in a register"},
		{"called by the callee", fill("48c7c6 000460ff e834000000 c3", "31ff ffe6"), testELF{symbols: two}, nil, Live, 1, "called"},
		{"left alone by the callee", fill("48c7c6 000460ff e834000000 31ff ffd6 c3", "31c0 c3"), testELF{symbols: two}, nil, Live, 1, "called"},
		{"left alone by the page", "48c7c1 000460ff 31ff ffd1 31ff ffd1 c3", testELF{symbols: whole}, nil, Live, 2, "called"},

		{"a table of jumps", hoisted + "488d0d 15000000 486304b9 4801c8 ffe0 ffd3 5b c3 4839c3 ebf9 909090 f4ffffff f8ffffff", testELF{symbols: whole}, nil, Unknown, 1, "compared"},
		{"a table that another call fills, from a constant of 16 bytes", fill(hoisted+"85ff 7514 488d0d 45000000 f30f6f05 25000000 0f1106 5b c3 ffd3 ff27 5b c3 4839c3 ebf9",
			"2410000000000000 2610000000000000 0000000000000000 2410000000000000 c3"), testELF{symbols: whole}, nil, Unknown, 1, "indirect jump"},
		{"a jump that nothing explains", hoisted + "ffe7", testELF{symbols: whole}, nil, Unknown, 0, "indirect jump"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.e.dyn, c.e.text = true, asm(t, c.text); len(c.e.text) < second {
				c.e.text = asm(t, fill(c.text, "c3"))
			}
			if c.pads != nil {
				c.e.data, c.e.fdes = []byte("\xff\xff\x01"), []uint64{at} // no base, no types; fields of 7 bits
				c.e.data = append(c.e.data, byte(4*len(c.pads)))
				for _, p := range c.pads {
					c.e.data = append(c.e.data, byte(p.Start), byte(p.End-p.Start), byte(p.At), 0)
				}
				const cie = "\x00\x00\x00\x00\x01zLR\x00\x01\x78\x10\x02\x00\x1b\x0c\x07\x08\x90\x01\x00\x00\x00"
				c.e.frame = append(le(nil, uint32(len(cie))), cie...)
				c.e.frame = le(c.e.frame, uint32(28), uint32(len(c.e.frame)+4), uint32(0), uint32(second), byte(8), c.e.dataVaddr(), [3]byte{})
			}
			r := scanFile(t, c.e.build())
			if len(r.Sites) != 1 {
				t.Fatalf("got %+v", r.Sites)
			}
			site := &r.Sites[0]
			if site.Verdict != c.verdict || site.Calls != c.calls || !strings.Contains(site.Reason, c.reason) {
				t.Errorf("got %v, %d calls (%s); want %v, %d (…%s…)", site.Verdict, site.Calls, site.Reason, c.verdict, c.calls, c.reason)
			}
		})
	}
}
