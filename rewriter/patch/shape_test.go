package patch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
)

const (
	subRsp = "4883ec08\n"
	addRsp = "4883c408\n"
	nops16 = "90909090909090909090909090909090\n"
)

// glibc is text that identifies a glibc that calls the page, or a file with one.
var glibc = glibcText("2.13")

func glibcText(version string) string {
	return fmt.Sprintf("%x", "\x00stable release version "+version+"\x00")
}

// TestStub is about functions that are only a call of the page.
func TestStub(t *testing.T) {
	const at = testBase + testTextOff
	timeStub := subRsp + movRaxTime + callRax + addRsp + "c3"
	fn := func(off uint64) []testSym { return []testSym{{"f", at + off, 300, elf.STTFunc, 0}} }
	for _, c := range []struct {
		name string
		e    testELF
		text string
		off  uint64 // of the stub
		len  uint64
	}{
		{"sub, mov, call, add, ret: a symbol", testELF{symbols: fn(1)}, "c3" + timeStub, 1, 18},
		{"an unwind entry", testELF{fdes: []uint64{at + 1}}, "c3" + timeStub, 1, 18},
		{"a direct call", testELF{entry: at + 19}, "c3" + timeStub + "e8 e9ffffff c3", 1, 18},
		{"aligned behind nops: unknown end", testELF{}, nops16 + timeStub, 0, 0},
		{"aligned behind code", testELF{}, "9090909090909090909090 b800010000" + timeStub, 0, 0},
		{"mov, call, ret", testELF{symbols: fn(0)}, movRaxTime + callRax + "c3", 0, 10},
		{"mov, jmp", testELF{symbols: fn(0)}, movRaxTime + "ffe0", 0, 9},
		{"push, ret", testELF{symbols: fn(0)}, "68 000460ff c3", 0, 0},
		{"through another register than rax", testELF{symbols: fn(0)}, "49bb 000460ffffffffff 41ffe3", 0, 0},
		{"another sub", testELF{symbols: fn(0)}, "4883ec18" + movRaxTime + callRax + "4883c418 c3", 0, 0},
		{"sub without add", testELF{symbols: fn(0)}, subRsp + movRaxTime + callRax + "58 c3", 0, 0},
		{"work after the call", testELF{symbols: fn(0)}, subRsp + movRaxTime + callRax + "31c0" + addRsp + "c3", 0, 0},
		{"a call that is not adjacent", testELF{symbols: fn(0)}, movRaxTime + "90" + callRax + "c3", 0, 0},
		{"a branch to its start", testELF{symbols: fn(0)}, timeStub + "ebec", 0, 18},
		{"a branch to the mov", testELF{symbols: fn(0)}, timeStub + "ebf0", 0, 0},
		{"a label at the mov", testELF{symbols: append(fn(0), testSym{"l", at + 4, 0, elf.STTNotype, 0})}, timeStub, 0, 0},
		{"a label at the call", testELF{symbols: append(fn(0), testSym{"l", at + 11, 0, elf.STTNotype, 0})}, timeStub, 0, 18},
		{"a branch to the call", testELF{symbols: fn(0)}, timeStub + "ebf7", 0, 18},
		{"a branch to the add", testELF{symbols: fn(0)}, timeStub + "ebf9", 0, 18},
		{"a far branch to the add", testELF{symbols: fn(0)}, timeStub + nops16 + "e9 e6ffffff", 0, 18},
		{"a far branch to the call", testELF{symbols: fn(0)}, timeStub + nops16 + "0f84 e3ffffff", 0, 18},
		{"a far branch into the sub", testELF{symbols: fn(0)}, timeStub + nops16 + "0f85 d9ffffff", 0, 0},
		{"a far branch to the mov", testELF{symbols: fn(0)}, timeStub + nops16 + "0f85 dcffffff", 0, 0},
		{"the beginning of a lea at the end", testELF{symbols: fn(0)}, timeStub + "488d05000000", 0, 18},
		{"a call into the middle of the mov", testELF{symbols: fn(0)}, timeStub + nops16 + "e8 e1ffffff", 0, 18},
		{"a jump table to the call", testELF{symbols: fn(0), data: binary.LittleEndian.AppendUint64(nil, at+11)}, timeStub, 0, 18},
		{"a jump table to the start", testELF{symbols: fn(0), data: binary.LittleEndian.AppendUint64(nil, at)}, timeStub, 0, 18},
		{"a relocation to the call", testELF{symbols: fn(0), rela: []testRela{{at, elf.RRelative, at + 11}}}, timeStub, 0, 18},
		{"bytes that only look like a branch", testELF{symbols: []testSym{{"f", at, 18, elf.STTFunc, 0}, {"g", at + 18, 11, elf.STTFunc, 0}}}, timeStub + "48b8 ebf7ebf7ebf7ebf7 c3", 0, 18},
		{"a branch without a known start", testELF{}, nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + nops16 + timeStub + "ebf7", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.text = asm(t, c.text)
			r := scanFile(t, c.e.build())
			if len(r.Sites) != 1 {
				t.Fatalf("got %+v", r.Sites)
			}
			want := Extent{Vaddr: at + c.off, Len: c.len}
			if c.len == 0 {
				want = Extent{}
			}
			if s := r.Sites[0]; s.Stub != want || s.Verdict != Live {
				t.Errorf("got %v, stub %#x; want stub %#x", s.Verdict, s.Stub, want)
			}
		})
	}
}

// TestWordSeam: a jump table leads into a stub, with its entry around the end of one piece of the segment.
func TestWordSeam(t *testing.T) {
	const at = testBase + testTextOff
	for d := -9; d < 2; d++ {
		e := testELF{text: asm(t, timeStubText), data: make([]byte, elf.ChunkSize+16), symbols: []testSym{{"f", at, 18, elf.STTFunc, 0}}}
		binary.LittleEndian.PutUint64(e.data[elf.ChunkSize+d:], at+4)
		if r := scanFile(t, e.build()); len(r.Sites) != 1 || r.Sites[0].Stub.Len != 0 {
			t.Errorf("%d bytes from the end: got %+v", d, r.Sites)
		}
	}
}

// TestManyCallers is about a program that calls time() in many places, each followed by functions that call
// others: repeated questions about those are answered once, otherwise the program's only site would exceed the
// limit of work.
func TestManyCallers(t *testing.T) {
	text := asm(t, timeStubText)
	call := func(to int) { // at the end of text
		text = binary.LittleEndian.AppendUint32(append(text, 0xe8), uint32(to-len(text)-jumpLen))
	}
	// Each of these functions calls the one before it ten times, and leaves all registers alone.
	callee := len(text)
	text = append(text, 0xc3)
	for range calleeDepth - 1 {
		at := len(text)
		for range 10 {
			call(callee)
		}
		text = append(text, 0xc3)
		callee = at
	}
	for range 100 {
		call(0)
		call(callee)
		text = append(text, 0xc3)
	}
	e := testELF{text: append(text, asm(t, glibc)...)}
	e.symbols = []testSym{{"time", e.textVaddr(), 18, elf.STTFunc, 1}}
	p := planFile(t, e.build(), Options{})
	if len(p.Patches) != 1 || p.Patches[0].Form != Entry {
		t.Errorf("got %d patches, want one in the entry form: %v", len(p.Patches), p.Patches[0].Reason)
	}
}

func TestSymbol(t *testing.T) {
	const at = testTextOff
	for _, c := range []struct {
		name    string
		symbols []testSym
		want    string
	}{
		{"none", nil, ""},
		{"one", []testSym{{"time", at, 20, elf.STTFunc, 1}}, "time"},
		{"public before private", []testSym{{"__gettimeofday", at, 20, elf.STTFunc, 1}, {"gettimeofday", at, 20, elf.STTFunc, 2}, {"gtod", at, 20, elf.STTFunc, 0}}, "gettimeofday"},
		{"with a version", []testSym{{"time@@GLIBC_2.2.5", at, 20, elf.STTFunc, 1}}, "time"},
		{"too short", []testSym{{"time", at, 1, elf.STTFunc, 1}}, ""},
		{"without a size", []testSym{{"time", at, 0, elf.STTFunc, 1}}, ""},
		{"an object", []testSym{{"time", at, 20, 1, 1}}, ""},
		{"the inner one", []testSym{{"all", at, 20, elf.STTFunc, 1}, {"part", at + 1, 10, elf.STTFunc, 0}}, "part"},
		{"not fit to print", []testSym{{"a\x1b[2J\xff", at, 20, elf.STTFunc, 1}}, "a?[2J?"},
		{"a size that overflows", []testSym{{"time", at, ^uint64(0), elf.STTFunc, 1}}, "time"},
		{"a value that overflows", []testSym{{"time", ^uint64(0), 20, elf.STTFunc, 1}}, ""},
	} {
		for _, bare := range []bool{false, true} {
			name := fmt.Sprintf("%s, section headers %v", c.name, !bare)
			t.Run(name, func(t *testing.T) {
				e := testELF{dyn: true, dynamic: true, bare: bare, text: asm(t, "90"+movRaxTime+callRax+"c3"), symbols: c.symbols}
				want := c.want
				if bare && c.name == "the inner one" {
					want = "all" // the other is local, and only .symtab has it
				}
				if r := scanFile(t, e.build()); len(r.Sites) != 1 || r.Sites[0].Symbol != want {
					t.Errorf("got %+v, want %q", r.Sites, want)
				}
			})
		}
	}
}

// TestOffsetsIntoStub: a table of offsets in assembly leads behind the first instruction of a stub.
func TestOffsetsIntoStub(t *testing.T) {
	const table, jump = 0x60, 0x20
	lea := func(reg byte, at, to int) string { // from rip, 7 bytes
		return fmt.Sprintf("488d %02x %08x", 5|reg<<3, bswap(uint32(to-(at+7))))
	}
	for _, c := range []struct {
		name, code string
		base       int
		form       Form
	}{
		{"from the table", lea(1, jump, table) + "486304 81 4801c8 ffe0", table, Lea},
		{"from a label", lea(1, jump, table) + lea(2, jump+7, 0) + "486304 81 4801d0 ffe0", 0, Lea},
		{"from a label named first", lea(2, jump, 0) + lea(1, jump+7, table) + "486304 81 4801d0 ffe0", 0, Lea},
		{"another table", lea(1, jump, table) + "486304 81 4801c8 ffe0", table - 12, Entry},
	} {
		for _, dyn := range []bool{false, true} {
			text := append(asm(t, timeStubText), make([]byte, table+64)...)
			copy(text[jump:], asm(t, c.code))
			binary.LittleEndian.PutUint32(text[table:], uint32(4-c.base))
			e := testELF{dyn: dyn, text: text}
			e.symbols = []testSym{{"f", e.textVaddr(), 18, elf.STTFunc, 1}}
			if q := planFile(t, e.build(), Options{}).Patches[0]; q.Form != c.form {
				t.Errorf("%s, ET_DYN %v: got %v (%s), want %v", c.name, dyn, q.Form, q.Reason, c.form)
			}
		}
	}
}

// TestStarts is about a function that neither a symbol nor an unwind table has: it is called, passed by address, named
// by a label, or fills the range between two others.
func TestStarts(t *testing.T) {
	const at, size = testTextOff, 16 // bytes to each part of the text
	const site = movRaxTime + callRax + "c3"
	f, last := testSym{"f", at, 1, elf.STTFunc, 1}, testSym{"last", at + 4*size, 1, elf.STTFunc, 1}
	around := []testSym{f, last}
	long := func(s testSym) []testSym { s.size = size; return []testSym{s} }
	label := func(bind byte) []testSym { return []testSym{{"time", at + size, 0, elf.STTNotype, bind}} }
	for _, c := range []struct {
		name    string
		parts   [4]string
		symbols []testSym
		entry   uint64 // in the text
		word    int    // in the data, with the address of the second part; 0: none
		known   bool
	}{
		{"called", [4]string{"e80b000000 c3", site}, long(f), size * 3, 0, true},
		{"jumped to", [4]string{"e90b000000", site}, long(f), size * 3, 0, true},
		{"called by nothing known", [4]string{"e80b000000 c3", site}, nil, size * 3, 0, false},
		{"called by data", [4]string{"c3 e81a000000 c3", "06", site}, long(f), size * 3, 0, false},
		{"called before another called address", [4]string{"e80b000000 e808000000 c3", "eb02 c390" + site}, long(f), size * 3, 0, true},
		{"called, and not run through", [4]string{"e80b000000 c3", "c3" + site}, long(f), size * 3, 0, false},
		{"passed by the entry point", [4]string{"488d3d09000000 c3", site}, nil, 0, 0, true},
		{"passed by what the entry point calls", [4]string{"488d3d09000000 c3", site, "e8dbffffff c3"}, nil, size * 2, 0, false},
		{"called by what the entry point jumps to", [4]string{"e90b000000", site, "e9dbffffff"}, nil, size * 2, 0, true},
		{"a label", [4]string{"c3", site}, label(1), size * 3, 0, true},
		{"a local label", [4]string{"c3", site}, label(0), size * 3, 0, false},
		{"a label without a dynamic table", [4]string{"c3", site}, label(1), size * 3, 0, false},
		{"a label of other code", [4]string{"c3", "c3" + site}, label(1), size * 3, 0, false},
		{"a label of what is not all code", [4]string{"c3", "7401 06" + site}, label(1), size * 3, 0, false},

		{"between two functions", [4]string{"c3", site}, around, 0, 0, true},
		{"behind another one", [4]string{"c3", "31c0 c3", site}, around, 0, 0, true},
		{"behind what cannot be a function", [4]string{"c3", "06", site}, around, 0, 0, false},
		{"behind what cannot be padding", [4]string{"c3 06", site}, around, 0, 0, false},
		{"whose address is in data", [4]string{"c3", site}, around, 0, 8, false},
		{"whose address is in data, but not as a word", [4]string{"c3", site}, around, 0, 9, true},
		{"behind one whose address is in data", [4]string{"c3", "31c0 c3", site}, around, 0, 8, false},
		{"before no other function", [4]string{"c3", site}, around[:1], 0, 0, false},
		{"behind a function without an end", [4]string{"c3", site}, []testSym{{"f", at, 0, elf.STTFunc, 1}, last}, 0, 0, false},
		{"behind no other function", [4]string{"c3", site}, around[1:], 0, 0, false},
		{"that jumps to a function", [4]string{"c3", movRaxTime + callRax + "eb25"}, around, 0, 0, true},
		{"that jumps elsewhere", [4]string{"c3", movRaxTime + callRax + "eb26"}, around, 0, 0, false},
		{"that does not restore the stack", [4]string{"c3", "53" + site}, around, 0, 0, false},
		{"with a gap", [4]string{"c3", "eb01 06" + site}, around, 0, 0, false},
		{"with a jump to anywhere", [4]string{"c3", movRaxTime + callRax + "ffe7"}, around, 0, 0, false},
	} {
		e := testELF{dyn: true, dynamic: !strings.Contains(c.name, "without a dynamic"), symbols: c.symbols, entry: at + c.entry, data: make([]byte, 24)}
		for _, part := range append(c.parts[:], "c3") {
			b := asm(t, part)
			e.text = append(append(e.text, b...), bytes.Repeat([]byte{0x90}, size-len(b))...)
		}
		if c.parts[3] == "" {
			e.text[3*size] = opRet
		}
		if c.word > 0 {
			binary.LittleEndian.PutUint64(e.data[c.word:], at+size)
		}
		r := scanFile(t, e.build())
		if len(r.Sites) != 1 || (r.Sites[0].Verdict == Live) != c.known {
			t.Errorf("%s: got %+v, want a known function: %v", c.name, r.Sites, c.known)
		}
	}
}
