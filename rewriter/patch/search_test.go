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

func TestKinds(t *testing.T) {
	const at = testBase + testTextOff
	rel := func(op byte, target uint64) string { // at the second byte of the text
		return fmt.Sprintf("90 %02x %08x c3", op, bswap(uint32(target-(at+6))))
	}
	start := []testSym{{"f", at, 100, elf.STTFunc, 1}}
	for _, c := range []struct {
		name    string
		e       testELF
		text    string
		kind    Kind
		fn      Function
		verdict Verdict
		len     uint8
		n       int // references found
	}{
		{"mov imm32", testELF{}, movRaxCPU + callRax + "c3", MovImm32, Getcpu, Live, 7, 1},
		{"mov imm32 to r8", testELF{}, "49c7c0 000060ff 41ffd0 c3", MovImm32, Gettimeofday, Live, 7, 1},
		{"mov imm64", testELF{}, "48b8 000460ffffffffff ffd0 c3", MovImm64, Time, Live, 10, 1},
		{"mov imm64 aligned like a word", testELF{}, "90909090 9090 48b8 000460ffffffffff ffd0 c3", MovImm64, Time, Live, 10, 1},
		{"mov imm64 with another upper half", testELF{}, "48b8 000460ff00000000 ffd0 c3", ArithImm32, Time, Unknown, 10, 1},
		{"mov imm32 without REX.W zero-extends", testELF{}, "c7c0 000460ff ffd0 c3", HalfImm32, Time, Unknown, 6, 1},
		{"another address in the page", testELF{}, "48c7c0 000260ff ffd0 c3", 0, 0, 0, 0, 0},
		{"another page", testELF{}, "48c7c0 00045fff ffd0 c3", 0, 0, 0, 0, 0},
		{"cmp", testELF{}, "4881fa 000860ff c3", CmpImm32, Getcpu, Benign, 7, 1},
		{"cmp rax", testELF{}, "483d 000860ff c3", CmpImm32, Getcpu, Benign, 6, 1},
		{"cmp memory", testELF{}, "48817b08 000060ff c3", CmpImm32, Gettimeofday, Benign, 8, 1},
		{"add", testELF{}, "4881c2 000860ff c3", ArithImm32, Getcpu, Unknown, 7, 1},
		{"a load of what is compared with", testELF{}, "486305 07000000 ffd0 c3 9090 483d 000460ff c3", HalfLoad, Time, Unknown, 7, 2},
		{"or in unknown code", testELF{}, "c3 4881c9 000460ff ffd1 31c9 c3", ArithImm32, Time, Unknown, 7, 2},
		{"or before what is not code", testELF{}, "c3 4881c9 000460ff ffd1 06", 0, 0, 0, 0, 0},
		{"or before an instruction without a rule", testELF{}, "c3 4881c9 000460ff ffd1 d7 c3", 0, 0, 0, 0, 0},
		{"add of 10 MiB", testELF{}, "4881c2 000060ff c3", 0, 0, 0, 0, 0},
		{"mov to a table", testELF{}, "48c7442430 000060ff c3", StoreImm32, Gettimeofday, Unknown, 9, 1},
		{"mov to the stack, never read", testELF{}, "48c74424f8 000060ff c3", StoreImm32, Gettimeofday, Unknown, 9, 1},
		{"mov to disp32(base,index)", testELF{}, "48c7841800010000 000060ff c3", StoreImm32, Gettimeofday, Unknown, 12, 1},
		{"mov to a variable", testELF{}, "48c705 00010000 000060ff c3", StoreImm32, Gettimeofday, Unknown, 11, 1},
		{"push in a known function", testELF{symbols: start}, "90 68 000460ff c3", PushImm32, Time, Live, 5, 1},
		{"push in unknown code", testELF{}, "c3 68 000460ff c3", PushImm32, Time, Unknown, 5, 1},
		{"lea", testELF{}, "488d0425 000460ff ffd0 c3", LeaDisp32, Time, Live, 8, 1},
		{"lea relative to rip", testELF{}, fmt.Sprintf("488d05 %08x ffd0 c3", bswap(uint32(Time.Vaddr()-(at+7)))), LeaDisp32, Time, Live, 7, 1},
		{"lea relative to rip, with a needless prefix", testELF{}, fmt.Sprintf("498d05 %08x ffd0 c3", bswap(uint32(Time.Vaddr()-(at+7)))), LeaDisp32, Time, Live, 7, 1},
		{"lea relative to rax", testELF{}, fmt.Sprintf("488d80 %08x ffd0 c3", bswap(uint32(Time.Vaddr()-(at+7)))), 0, 0, 0, 0, 0},
		{"lea to r12", testELF{}, "4c8d2425 000460ff 41ffd4 4d31e4 c3", LeaDisp32, Time, Live, 8, 1},
		{"push inside another instruction", testELF{symbols: start}, "b8 68000460 ff c3", 0, 0, 0, 0, 0},
		{"call rel32", testELF{symbols: start}, rel(0xe8, Time.Vaddr()), CallRel32, Time, Live, 5, 1},
		{"jmp rel32", testELF{symbols: start}, rel(0xe9, Getcpu.Vaddr()), CallRel32, Getcpu, Live, 5, 1},
		{"jcc rel32", testELF{symbols: start}, fmt.Sprintf("0f84 %08x c3", bswap(uint32(Time.Vaddr()-(at+6)))), JccRel32, Time, Live, 6, 1},
		{"call rel32 in unknown code", testELF{}, rel(0xe8, Time.Vaddr()), CallRel32, Time, Live, 5, 1},
		{"call rel32 inside another instruction", testELF{symbols: start}, "48b8" + rel(0xe8, Time.Vaddr()-1)[3:14] + "000000 c3", CallRel32, Time, Unknown, 5, 1},
		{"call rel32 beside the entries", testELF{symbols: start}, rel(0xe8, Time.Vaddr()+1), 0, 0, 0, 0, 0},
		{"a bare immediate", testELF{}, "000460ff c3", 0, 0, 0, 0, 0},
		{"a word in the text", testELF{}, "c390909090909090 000460ffffffffff", DataWord, Time, Unknown, 8, 1},
		{"a word that is not aligned", testELF{}, "c3909090 000460ffffffffff", DataWord, Time, Unknown, 8, 1},
		{"a word in the data", testELF{data: asm(t, "0000000000000000 000460ffffffffff")}, "c3", DataWord, Time, Unknown, 8, 1},
		{"a word in the data that is not aligned", testELF{data: asm(t, "00000000000000 000460ffffffffff")}, "c3", DataWord, Time, Unknown, 8, 1},
		{"half a word in the data", testELF{data: asm(t, "0000000000000000 000460ff00000000")}, "c3", 0, 0, 0, 0, 0},
		{"mov in the data", testELF{data: asm(t, "0000000000000000 48c7c0 000460ff")}, "c3", MovImm32, Time, Unknown, 7, 1},
		{"movabs in the data", testELF{data: asm(t, "0000000000000000 48b8 000460ffffffffff")}, "c3", DataWord, Time, Unknown, 8, 1},
		{"cmp in the data", testELF{data: asm(t, "0000000000000000 483d 000460ff")}, "c3", 0, 0, 0, 0, 0},
		{"push in the data", testELF{data: asm(t, "0000000000000000 68 000460ff")}, "c3", 0, 0, 0, 0, 0},
		{"push and ret in the data", testELF{data: asm(t, "0000000000000000 68 000460ff c3")}, "c3", PushImm32, Time, Unknown, 5, 1},
		{"push and ret at the end of the data", testELF{data: asm(t, "0000 68 000460ff c3")}, "c3", PushImm32, Time, Unknown, 5, 1},
		{"-160 in 8 bytes", testELF{data: asm(t, "0000000000000000 60ffffffffffffff")}, "c3", 0, 0, 0, 0, 0},
		{"-160 before a number", testELF{data: asm(t, "0000000000000000 60ffffff 05000000")}, "c3", 0, 0, 0, 0, 0},
		{"-160 before half of a negative number", testELF{data: asm(t, "0000000000000000 60ffffff ffff0000")}, "c3", DataWord, Gettimeofday, Unknown, 8, 1},
		{"mov in .rodata of an executable segment", testELF{rodataFirst: 16, entry: at + 16}, movRaxTime + callRax + "c3 909090909090 c3", MovImm32, Time, Unknown, 7, 1},
		{"the same without section headers", testELF{rodataFirst: 16, bare: true}, movRaxTime + callRax + "c3 909090909090 c3", MovImm32, Time, Live, 7, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.text = asm(t, c.text)
			file := c.e.build()
			r := scanFile(t, file)
			if r.Skipped != nil || len(r.Sites) != c.n {
				t.Fatalf("skipped %q, got %d sites, want %d: %+v", r.Skipped, len(r.Sites), c.n, r.Sites)
			}
			if c.n == 0 {
				return
			}
			s := r.Sites[0]
			if s.Kind != c.kind || s.Function != c.fn || s.Verdict != c.verdict || s.Len != c.len {
				t.Errorf("got %v of %v, %v (%s), %d bytes; want %v of %v, %v, %d bytes", s.Kind, s.Function, s.Verdict, s.Reason, s.Len, c.kind, c.fn, c.verdict, c.len)
			}
			if s.Direct() != strings.Contains(c.name, " rel32") {
				t.Errorf("direct: %v", s.Direct())
			}
			if off, ok := r.File.Offset(s.Vaddr, uint64(s.Len)); !ok || off != s.Offset {
				t.Errorf("vaddr %#x is at offset %#x, got %#x", s.Vaddr, off, s.Offset)
			}
			if s.Verdict == Live && s.Kind == CallRel32 && (s.Call != s.Vaddr || s.CallLen != 5 || s.Calls != 1 || s.Tail != (file[s.Offset] == 0xe9)) {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func bswap(v uint32) uint32 {
	return binary.BigEndian.Uint32(binary.LittleEndian.AppendUint32(nil, v))
}

// TestRelativeOnlyInPrograms: a library's rel32 cannot reach the page, wherever it is loaded.
func TestRelativeOnlyInPrograms(t *testing.T) {
	at := uint64(testTextOff)
	text := fmt.Sprintf("90 e8 %08x c3", bswap(uint32(Time.Vaddr()-(at+6))))
	e := testELF{dyn: true, text: asm(t, text), symbols: []testSym{{"f", at, 100, elf.STTFunc, 1}}}
	file := e.build()
	const near = 0x300 // the upper half of a displacement from there is that of the page
	copy(file[near:], le([]byte{0xe8}, uint32(Getcpu.Vaddr()-(near+5))))
	if r := scanFile(t, file); len(r.Sites) != 0 {
		t.Errorf("got %+v", r.Sites)
	}
}

// TestEnds: a segment may begin with a branch to the page, or with a lea of it, or end so.
func TestEnds(t *testing.T) {
	for _, op := range []string{"e8", "0f84", "488d05"} {
		for _, end := range []bool{false, true} {
			e := testELF{bare: true, text: asm(t, "c3")}
			if b := asm(t, op); end {
				e.data = make([]byte, 4-len(b))
			}
			at := e.dataVaddr() + uint64(len(e.data))
			e.data = append(e.data, asm(t, op)...)
			e.data = le(e.data, uint32(Time.Vaddr()-(e.dataVaddr()+uint64(len(e.data))+4)))
			file := reprog(t, e.build(), func(all []elf.Prog) []elf.Prog {
				for i := range all {
					all[i].Flags |= elf.PFX
				}
				return all
			})
			if r := scanFile(t, file); len(r.Sites) != 1 || r.Sites[0].Vaddr != at {
				t.Errorf("%s, at the end %v: got %+v", op, end, r.Sites)
			}
		}
	}
}

// TestNextSegment puts a reference at the places around the end of one executable segment and the start of the next.
func TestNextSegment(t *testing.T) {
	site := asm(t, movRaxTime+callRax+"c3")
	for before := range len(site) + 8 {
		e := testELF{tight: true, text: bytes.Repeat([]byte{0x90}, elf.PageSize), data: bytes.Repeat([]byte{0x90}, 16)}
		at := e.dataVaddr() - uint64(before)
		copy(e.text[len(e.text)-before:], site)
		copy(e.data, site[min(before, len(site)):])
		file := reprog(t, e.build(), func(all []elf.Prog) []elf.Prog {
			for i := range all {
				all[i].Flags |= elf.PFX
			}
			return all
		})
		r := scanOnce(t, file)
		if crosses := before > 0 && before < 9 && before != 7; len(r.Sites) != 1 || r.Sites[0].Vaddr != at || (r.Sites[0].Verdict == Unknown) != crosses {
			t.Errorf("%d bytes before the end: got %+v, want one at %#x", before, r.Sites, at)
		}
	}
}

// TestChunks puts a reference at every place around the seams of the pieces of a segment, and one after another:
// each must be found exactly once.
func TestChunks(t *testing.T) {
	site := asm(t, movRaxTime+callRax+"c3")
	const seam = elf.ChunkSize - testTextOff
	for d := -2 * elf.ChunkMargin; d <= 2*elf.ChunkMargin; d++ {
		text := bytes.Repeat([]byte{0xc3}, elf.ChunkSize+4096) // returns: nothing is followed from one end to the other
		copy(text[seam+d:], site)
		e := testELF{text: text}
		file := e.build()
		r := scanFile(t, file)
		if want := e.textVaddr() + uint64(seam+d); len(r.Sites) != 1 || r.Sites[0].Vaddr != want {
			t.Fatalf("at the seam %+d: got %+v, want one at %#x", d, r.Sites, want)
		}
		if want := int64(testTextOff + len(text)); r.ExecBytes != want {
			t.Fatalf("searched %d bytes, want %d", r.ExecBytes, want)
		}
	}
}

// TestRelativeSeams does the same for the second pass, around the places at which the upper half of the
// displacement changes.
func TestRelativeSeams(t *testing.T) {
	text := bytes.Repeat([]byte{0x90}, 0x30000)
	e := testELF{text: text}
	at := e.textVaddr()
	want := map[uint64]Function{}
	for _, fn := range Functions {
		// Where the lower half of the displacement, target - (vaddr+5), is 0.
		seam := 0x10000 + uint64(uint16(fn.Vaddr()-5-at))
		e.symbols = append(e.symbols, testSym{"f", at + seam - 16, 32, elf.STTFunc, 1})
		for _, off := range []uint64{seam - 6, seam - 1, seam + 4, seam + 9} {
			text[off] = 0xe8
			binary.LittleEndian.PutUint32(text[off+1:], uint32(fn.Vaddr()-(at+off+5)))
			want[at+off] = fn
		}
		if low := uint16(binary.LittleEndian.Uint32(text[seam:])); low != 1 {
			t.Fatalf("the seam is not where it should be: %#x", low)
		}
	}
	r := scanFile(t, e.build())
	for _, s := range r.Sites {
		if fn, ok := want[s.Vaddr]; !ok || fn != s.Function || s.Kind != CallRel32 {
			t.Errorf("%v of %v at %#x, want %v", s.Kind, s.Function, s.Vaddr, fn)
		}
		delete(want, s.Vaddr)
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

func TestProgramKinds(t *testing.T) {
	text := asm(t, movRaxTime+callRax+"c3")
	goNote := append(le(nil, uint32(4), uint32(16), uint32(4)), "Go\x00\x000123456789abcdef"...)
	for _, c := range []struct {
		name   string
		e      testELF
		patch  func(file []byte) // before it is scanned
		static bool
		isGo   bool
	}{
		{"static program", testELF{}, nil, true, false},
		{"dynamic program", testELF{interp: "/lib64/ld-linux-x86-64.so.2", dynamic: true}, nil, false, false},
		{"PIE", testELF{dyn: true, interp: "/lib64/ld-linux-x86-64.so.2", extra: []elf.Dyn{{Tag: elf.DTFlags1, Val: elf.DF1PIE}}}, nil, false, false},
		{"static-pie", testELF{dyn: true, extra: []elf.Dyn{{Tag: elf.DTFlags1, Val: elf.DF1PIE}}}, nil, true, false},
		{"static-pie of older linkers", testELF{dyn: true, extra: []elf.Dyn{{Tag: elf.DTDebug}}}, nil, true, false},
		{"library", testELF{dyn: true, soname: "libx.so.1"}, nil, false, false},
		{"library without a name", testELF{dyn: true, dynamic: true}, nil, false, false},
		{"Go by its note", testELF{bare: true}, func(f []byte) {
			copy(f[bytes.Index(f, []byte("GNU\x00"))-12:], goNote)
		}, true, true},
		{"Go by its table of functions", testELF{bare: true}, func(f []byte) {
			copy(f[testTextOff-8:], "\xfb\xff\xff\xff\x00\x00\x01\x08")
		}, true, true},
		{"Go by a section", testELF{noteSection: ".gosymtab"}, nil, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.text = text
			file := c.e.build()
			if c.patch != nil {
				c.patch(file)
			}
			r := scanFile(t, file)
			if r.Static != c.static || r.Go != c.isGo || len(r.Sites) != 1 {
				t.Errorf("got static %v, Go %v, %d sites, skipped %q", r.Static, r.Go, len(r.Sites), r.Skipped)
			}
		})
	}
}

func TestGoData(t *testing.T) {
	e := testELF{bare: true, text: []byte{0xc3}, data: asm(t, "000460ffffffffff")}
	file := e.build()
	if r := scanFile(t, file); len(r.Sites) != 1 || r.Sites[0].Verdict != Unknown {
		t.Fatalf("without Go: got %+v", r.Sites)
	}
	copy(file[testTextOff-8:], "\xfb\xff\xff\xff\x00\x00\x01\x08")
	if r := scanFile(t, file); len(r.Sites) != 1 || r.Sites[0].Verdict != Dormant {
		t.Fatalf("with Go: got %+v", r.Sites)
	}
	for _, c := range []struct {
		name, text, data string
		want             Verdict
	}{
		{"runtime.vdsoGettimeofdaySym", "c3", "000460ffffffffff", Dormant},
		{"main.clock", "c3", "000460ffffffffff", Unknown},
		{"", "c3", "000460ffffffffff 000060ffffffffff", Dormant},
		{"", "c3", "000460ffffffffff 000460ffffffffff", Unknown},    // the runtime has each once
		{"", "c3", "000460ffffffffff 00 000460ffffffffff", Dormant}, // not aligned as a variable
		{"", "c3 fbffffff00000108", "000460ffffffffff", Dormant},
		{"", "c3 faffffff00000108", "000460ffffffffff", Unknown}, // Go 1.16
		{"", "c3 faffffff00000108", "00 000460ffffffffff", Benign},
		{"runtime.vdsoGettimeofdaySym", "c3 f1ffffff00000108", "000460ffffffffff", Unknown},
	} {
		e := testELF{text: asm(t, c.text), data: asm(t, c.data), noteSection: ".note.go.buildid"}
		if c.name != "" {
			e.symbols = []testSym{{c.name, e.dataVaddr(), 8, elf.STTObject, 0}}
		}
		if r := scanFile(t, e.build()); len(r.Sites) == 0 || r.Sites[0].Verdict != c.want {
			t.Errorf("%+v: got %+v, want %v", c, r.Sites, c.want)
		}
	}
}

func TestLibc(t *testing.T) {
	for _, c := range []struct{ soname, text, want string }{
		{"", "GNU C Library stable release version 2.5, by Roland", "glibc 2.5"},
		{"", "\x00\x00(Debian EGLIBC 2.13-38+deb7u1) \x00", "glibc 2.13"},
		{"", "NPTL 2.12\x00", "glibc 2.12"},
		{"", "*** glibc detected *** %s\x00 and NPTL 2.3.4\x00", "glibc 2.3.4"},
		{"", "*** glibc detected *** %s\x00", "glibc"},
		{"", "stable release version of it", ""},
		{"", "uClibc-0.9.30", "uClibc"},
		{"", "\x002.13\x00", ""},
		{"libpthread.so.0", "\x002.13\x00", "glibc 2.13"},
		{"libpthread.so.0", "\x002.13x\x002.\x002.5\x00", "glibc 2.5"},
		{"libc.so.6", "GNU C Library stable release version 2.13,", "glibc 2.13"},
		{"libfoo.so.1", "GNU C Library stable release version 2.13,", ""},
	} {
		e := testELF{dyn: c.soname != "", soname: c.soname, text: append(asm(t, movRaxTime+callRax+"c3"), c.text...)}
		if r := scanFile(t, e.build()); r.Libc != c.want || len(r.Sites) != 1 {
			t.Errorf("%q with %q: got %q (%d sites), want %q", c.soname, c.text, r.Libc, len(r.Sites), c.want)
		}
	}
}
