package patch

import (
	"bytes"
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
	const (
		hoisted, stored = hoistedTime, storedTime
		// A jump to a call or to the next function, by the offsets behind that.
		intoNext = "488d0d 39000000 486304b9 4801c8 ffe0 ffd3 5b c3"
		offsets  = "909090 d0ffffff f8ffffff 00000000"
	)
	fdes := []uint64{at, at + second}
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

		{"behind one that returns through a thunk", fill(hoisted+"85ff 7404 ffd3 5b c3 e82b000000 4839c3 5b c3", nops16[:26]+"e801000000 f4 48893c24 c3"), testELF{symbols: two}, nil, Unknown, 1, "compared"},
		{"behind one that goes on behind data", fill(hoisted+"e833000000 ffd3 5b c3", "eb00 58 4883c008 50 c3"), testELF{symbols: two}, nil, Unknown, 0, "unknown place"},
		{"behind one that forgets its return address", fill(hoisted+"e833000000 ffd3 5b c3", "488b0424 4889f8 4883c001 c3"), testELF{symbols: two}, nil, Live, 1, "called"},
		{"behind one that changes a copy of its return address", fill(hoisted+"e833000000 ffd3 5b c3", "488b0424 4883c008 c3"), testELF{symbols: two}, nil, Unknown, 0, "unknown place"},
		{"behind one that changes a copy of another word", fill(hoisted+"e833000000 ffd3 5b c3", "488b442408 4883c008 c3"), testELF{symbols: two}, nil, Live, 1, "called"},
		{"compared in a switch of the callee", fill(hoisted+"e833000000 ffd3 5b c3", "488d0d19000000 486304b9 4801c8 ffe0 c3 4839fb c3"+nops16[:22]+"f0ffffff f1ffffff"), testELF{symbols: two}, nil, Unknown, 1, "compared"},
		{"in another register for some time, in a long callee", fill(hoisted+"e833000000 ffd3 5b c3", "55 4889dd 5d"+nops16[:26]+"c3"), testELF{symbols: two}, nil, Live, 1, "called"},
		{"over a callee that jumps through a pointer", fill(hoisted+"e833000000 ffd3 5b c3", "ff25 00100000"), testELF{symbols: two}, nil, Live, 1, "called"},
		{"behind another entry, without an end", hoisted + "ffd3 5b c3", testELF{symbols: append(whole[:1:1], testSym{"h", at + 1, 0, elf.STTFunc, 1})}, nil, Live, 1, "called"},
		{"overwritten and saved by the callee", fill(hoisted+"e833000000 ffd3 5b c3", "31db 53 5b c3"), testELF{symbols: two}, nil, Live, 1, "called"},
		{"on the stack over a call that returns again", fill(stored+"e82f000000 ff1424 4883c418 c3", "59 ffe1"), testELF{symbols: two}, nil, Unknown, 1, "returns twice"},
		{"over one that copies its return address", fill(stored+"e82f000000 ff1424 4883c418 c3", "488b0c24 31c0 c3"), testELF{symbols: two}, nil, Unknown, 1, "returns twice"},
		{"on the stack when another function goes on, and returns it behind a call", fill(stored+"ff1424 e92c000000", "ffd7 488b0424 4883c418 c3"), testELF{symbols: two}, nil, Unknown, 1, "unknown frame"},
		{"on the stack when another function goes on, and returns it behind a jump", fill(stored+"ff1424 e92c000000", "eb00 488b0424 4883c418 c3"), testELF{symbols: two}, nil, Unknown, 1, "unknown frame"},
		{"on the stack when another function goes on, and calls it", fill(stored+"ff1424 e92c000000", "ff1424 488b0424 4883c418 c3"), testELF{symbols: two}, nil, Unknown, 1, "unknown frame"},
		{"over one that takes an address of its own", fill(stored+"e82f000000 ff1424 4883c418 c3", "488d0424 31c0 c3"), testELF{symbols: two}, nil, Live, 1, "from there"},
		{"over one that reads another word", fill(stored+"e82f000000 ff1424 4883c418 c3", "488b4c24f8 31c0 c3"), testELF{symbols: two}, nil, Live, 1, "from there"},
		{"over one that reads the byte before it", fill(stored+"e82f000000 ff1424 4883c418 c3", "807c240700 c3"), testELF{symbols: two}, nil, Live, 1, "from there"},
		{"over one that pops another word", fill(stored+"e82f000000 ff1424 4883c418 c3", "57 59 c3"), testELF{symbols: two}, nil, Live, 1, "from there"},

		{"in an argument at a switch in a frame of unknown depth", "55 4889e5 57 4883e4f0 48c7c7 000460ff 488d0d11000000 486304b1 4801c8 ffe0 ffd7 31ff c9 c3 6690 f8ffffff", testELF{symbols: whole}, nil, Unknown, 1, "argument"},
		{"a table of jumps", hoisted + "488d0d 15000000 486304b9 4801c8 ffe0 ffd3 5b c3 4839c3 ebf9 909090 f4ffffff f8ffffff", testELF{symbols: whole}, nil, Unknown, 1, "compared"},
		{"a table of jumps that ends with 0", hoisted + "488d0d 15000000 486304b9 4801c8 ffe0 ffd3 5b c3 4839c3 ebf9 909090 f4ffffff 00000000 f8ffffff", testELF{symbols: whole}, nil, Live, 1, "called"},
		{"a table that another call fills, from a constant of 16 bytes", fill(hoisted+"85ff 7514 488d0d 45000000 f30f6f05 25000000 0f1106 5b c3 ffd3 ff27 5b c3 4839c3 ebf9",
			"2410000000000000 2610000000000000 0000000000000000 2410000000000000 c3"), testELF{symbols: whole}, nil, Unknown, 1, "indirect jump"},
		{"entered in the middle", fill(movRaxTime+callRax+"c3", "e9 bcffffff"), testELF{symbols: two}, nil, Unknown, 1, "the middle"},
		{"a table of offsets from data", fill(hoisted+"488d0d 39000000 488d15 92000000 486304b9 4801d0 ffe0 ffd3 5b c3", "c3 00000000000000 77ffffff"+strings.Repeat("00", 0x80)), testELF{symbols: whole}, nil, Unknown, 0, "indirect jump"},
		{"a table that leads into another function", fill(hoisted+intoNext, "4839c3 5b c3"+offsets), testELF{symbols: whole, fdes: fdes, frame: testFrame(plainCIE, testFDE{second, ""}, testFDE{8, ""})}, nil, Live, 1, "called"},
		{"a table that leads into a part with a frame", fill(hoisted+intoNext, "4839c3 5b c3"+offsets), testELF{symbols: whole, fdes: fdes, frame: testFrame(plainCIE, testFDE{second, ""}, testFDE{8, "\x0e\x10"})}, nil, Unknown, 1, "compared"},
		{"tested by a long callee", fill(hoisted+"e833000000 ffd3 5b c3", nops16+"4885db c3"), testELF{symbols: two}, nil, Unknown, 1, "compared"},
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

// TestJumps is about the code before an indirect jump that shows its targets: the value is followed there, or the jump
// may lead anywhere.
func TestJumps(t *testing.T) {
	const (
		first, second = "38104000", "3c104000" // of the targets: one calls the page, the other compares
		words         = "58104000"             // with their addresses
		offsets       = "48104000"             // of 4 bytes each
		wide          = "68104000"             // of 8 bytes each
		jmpRax        = "ffe0"
		loads         = "488d0c25" + offsets + "486304b9" // lea offsets,%rcx; movslq (%rcx,%rdi,4),%rax
		plain         = "488d14bd00000000 488d0425" + offsets + "8b0402 4898 488d1425" + offsets + "4801d0" + jmpRax
		stored        = "488d0425" + first + "48894424f8 488d0c25" + second // lea first,%rax; mov %rax,-8(%rsp); lea second,%rcx
	)
	nops := func(n int) string { return strings.Repeat("90", n) }
	for _, c := range []struct {
		name, code string
		known      bool
	}{
		{"words", "ff24fd" + words, true},
		{"words, of a number that add doubles", "4801ff ff24fd" + words, false},
		{"of one that shl doubles", "48d1e7 ff24fd" + words, false},
		{"of one that imul multiplies", "486bff03 ff24fd" + words, false},
		{"of one that lea doubles", "488d3c7d00000000 ff24fd" + words, false},
		{"of one that lea doubles as a sum", "488d3c3f ff24fd" + words, false},
		{"of one that lea adds to", "488d3c37 ff24fd" + words, true},
		{"of one that lea increments", "488d7f01 ff24fd" + words, true},
		{"of one that add changes", "4801f7 ff24fd" + words, true},
		{"of a number that was doubled, and is another", "4801ff 89f7 ff24fd" + words, true},
		{"of a copy of one that is doubled", "4801f6 89f7 ff24fd" + words, false},
		{"from an address that lea loads", "488d0c25" + words + "ff24f9", true},
		{"a word in a register", "488b04fd" + words + jmpRax, true},
		{"a word in a register, of a number that add doubles", "4801ff 488b04fd" + words + jmpRax, false},
		{"half a word", "8b04fd" + words + jmpRax, false},
		{"a copy of one", "488b04fd" + words + "4889c1 ffe1", true},
		{"half a word at a fixed address", "8b0425" + words + jmpRax, false},
		{"half a word of the stack", stored + "8b4424f8" + jmpRax, false},
		{"half a copy", "488b04fd" + words + "89c1 ffe1", false},
		{"a word at a fixed address", "488b0425" + words + jmpRax, true},
		{"a word somewhere", "488b07" + jmpRax, false},
		{"one of two", "488d0425" + first + "488d0c25" + second + "480f44c1" + jmpRax, true},
		{"one of two halves", "488d0425" + first + "488d0c25" + second + "0f44c1" + jmpRax, false},
		{"one of two, the other unknown", "488d0425" + first + "480f44c6" + jmpRax, false},
		{"one of two, the other in memory", "488d0425" + first + "480f440425" + words + jmpRax, false},
		{"a constant of one of two", "b8" + first + "b9" + second + "480f44c1" + jmpRax, true},
		{"a sum with a constant", "488d0425" + first + "b900000000 4801c8" + jmpRax, false},
		{"near an unknown address", "488d4708" + jmpRax, false},
		{"over a branch", "488b04fd" + words + "7400" + jmpRax, true},
		{"over what is short", "488b04fd" + words + nops(15) + jmpRax, true},
		{"over what is long", "488b04fd" + words + nops(16) + jmpRax, false},
		{"by an instruction of 15 bytes", "2e2e2e2e2e2e2e 488b04fd" + words + jmpRax, true},
		{"in a register that another instruction changes", "488b04fd" + words + "48ffc0" + jmpRax, false},

		{"offsets", loads + "4801c8" + jmpRax, true},
		{"offsets, not added", loads + jmpRax, false},
		{"offsets, added twice", "488d1425" + offsets + loads + "4801d0 4801c8" + jmpRax, false},
		{"offsets, added by halves", loads + "01c8" + jmpRax, false},
		{"the sum of two offsets", "488d1425" + offsets + "486304ba 48630cb2 4801c8" + jmpRax, false},
		{"offsets, extended later", "488d0c25" + offsets + "8b14b9 4863c2 4801c8" + jmpRax, true},
		{"an address, extended", "488d0425" + first + "4863c0" + jmpRax, false},
		{"a word, extended", "488b04fd" + words + "4898" + jmpRax, false},
		{"an offset added from memory", "488d0425" + wide + "480304fd" + wide + jmpRax, true},
		{"an offset added from memory, by halves", "488d0425" + offsets + "0304bd" + offsets + jmpRax, false},
		{"a word somewhere, added", "488d0425" + wide + "480307" + jmpRax, false},
		{"an offset, subtracted first", "488d0c25" + offsets + "486314b9 4829d0 4801c8" + jmpRax, false},
		{"an offset and a word", "488b0c25" + words + "486304bd" + offsets + "4801c8" + jmpRax, false},
		{"an offset and a word of the stack", stored + "488b4c24f8 486304bd" + offsets + "4801c8" + jmpRax, false},
		{"two offsets added, one from memory", "488d0c25" + wide + "488d0425" + wide + "480304fd" + wide + "4801c8" + jmpRax, false},
		{"as gcc -O0 does", plain, true},
		{"with a base", strings.Replace(plain, "488d14bd", "488d94be", 1), false},
		{"with entries of 8 bytes", strings.Replace(plain, "488d14bd", "488d14fd", 1), false},
		{"with a number that is not multiplied", strings.Replace(plain, "488d14bd00000000", "4889fa", 1), false},
		{"with a number from a table", strings.Replace(plain, "488d14bd", "488b14bd", 1), false},
		{"with an unknown number", strings.Replace(plain, "488d14bd00000000", "", 1), false},
		{"with offsets of 8 bytes", strings.Replace(plain, "8b0402", "488b0402", 1), false},
		{"with a multiple", strings.Replace(plain, "8b0402", "8b0442", 1), false},

		{"a word of the stack", stored + "488b4424f8" + jmpRax, true},
		{"a sum with one", stored + "488b4424f8 4801c8" + jmpRax, false},
		{"through the stack", stored + "ff6424f8", true},
		{"through the frame", "4889e5" + stored + "ff65f8", true},
		{"through what is not the frame", "4839e5" + stored + "ff65f8", false},
		{"through a word that the stack has the address of", stored + "ff24fc", true},
	} {
		text := append(asm(t, "53 48c7c3 000460ff"+c.code), bytes.Repeat([]byte{0xcc}, 0x38)...)
		text = append(text[:0x38], asm(t, "ffd3 5b c3 4839c3 ebf9")...)
		text = le(pad(text, 8), int32(-0x10), int32(-0xc), int64(0x7f7f7f7f7f7f7f7f), uint64(0x401038), uint64(0x40103c), int64(-0x30), int64(-0x2c))
		e := testELF{text: text, symbols: []testSym{{"f", testBase + testTextOff, 0x48, elf.STTFunc, 1}}}
		want := "indirect jump"
		if c.known {
			want = "compared"
		}
		if r := scanFile(t, e.build()); len(r.Sites) != 1 || !strings.Contains(r.Sites[0].Reason, want) {
			t.Errorf("%s: got %+v, want %q", c.name, r.Sites, want)
		}
	}
}
