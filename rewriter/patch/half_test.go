package patch

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
)

// TestHalves: an address made from a constant of 32 bits and a sign extension.
func TestHalves(t *testing.T) {
	const (
		movEax  = "b8 000460ff\n"
		cdqe    = "4898\n"
		stored  = "55 4889e5 4883ec10 c745fc 000460ff\n" // movl $time,-4(%rbp)
		widened = "488b45fc"                             // the word of 8 bytes there
		ret     = "c3"
	)
	for _, c := range []struct {
		name, text string
		kind       Kind
		want       Verdict
		form, pie  Form
		reason     string
		n          int
	}{
		{"mov, cdqe, call", movEax + cdqe + callRax + ret, HalfImm32, Live, Imm, Left, "called", 1},
		{"mov, cdqe, jmp", movEax + cdqe + "ffe0", HalfImm32, Live, Imm, Left, "called", 1},
		{"mov with a ModRM byte", "c7c0 000460ff" + cdqe + callRax + ret, HalfImm32, Live, Imm, Left, "called", 1},
		{"mov to r8d, movslq", "41b8 000460ff 4d63c0 41ffd0" + ret, HalfImm32, Live, Imm, Left, "called", 1},
		{"movslq to another register", movEax + "4863d0 ffd2" + ret, HalfImm32, Live, Imm, Left, "called", 1},
		{"movslq to 32 bits", movEax + "63c8 ffd1" + ret, HalfImm32, Unknown, Left, Left, "arithmetic", 1},
		{"copied, then extended", movEax + "89c1 4863d1 31c0 ffd2" + ret, HalfImm32, Live, Imm, Left, "called", 1},
		{"lea of 32 bits", "8d0425 000460ff" + cdqe + callRax + ret, HalfImm32, Live, Imm, Left, "called", 1},
		{"lea with an address of 32 bits", "67 488d0425 000460ff" + cdqe + callRax + ret, LeaDisp32, Unknown, Left, Left, "", 1},
		{"in the stack, movslq", stored + "486345fc" + callRax + "c9" + ret, HalfImm32, Live, Imm, Left, "called from there", 1},
		{"in the stack, mov, cdqe", stored + "8b45fc" + cdqe + callRax + "c9" + ret, HalfImm32, Live, Imm, Left, "called from there", 1},
		{"through the stack", "55 4889e5 4883ec10" + movEax + "8945fc 486345fc" + callRax + "c9" + ret, HalfImm32, Live, Imm, Left, "called from there", 1},
		{"in the stack, beside the result", "55 4889e5 4883ec10 c745fc 000460ff 488d7df0 486345fc" + callRax + "c9" + ret, HalfImm32, Live, Imm, Left, "called from there", 1},
		{"in the stack over a call, movslq", stored + "e808000000 486345fc" + callRax + "c9" + ret + "31c0" + ret, HalfImm32, Live, Imm, Left, "called from there", 1},
		{"in the stack over a call, mov, cdqe", stored + "e809000000 8b45fc" + cdqe + callRax + "c9" + ret + "31c0" + ret, HalfImm32, Live, Imm, Left, "called from there", 1},
		{"in the frame of a caller", "c7442408 000460ff 4863442408" + callRax + ret, HalfImm32, Unknown, Left, Left, "seen to make whole", 1},
		{"through the stack, whose address is taken", "55 4889e5 4883ec10" + movEax + "8945fc 488d7dfc e808000000 486345fc" + callRax + "c9" + ret + "488b07" + ret, HalfImm32, Unknown, Left, Left, "address of the stack", 1},
		{"movabs of 32 bits", "48b8 000460ff00000000" + cdqe + callRax + ret, ArithImm32, Unknown, Left, Left, "longer constant", 1},
		{"and stored as a number", movEax + "891500102000 890500102000" + cdqe + callRax + ret, HalfImm32, Unknown, Left, Left, "used as a number", 1},
		{"near a constant by lea", "488d05 05000000 486304b8" + callRax + ret + "90 b9 000460ff" + ret, HalfLoad, Unknown, Left, Left, "in data", 1},
		{"in the stack, compared there", stored + "837dfc00 486345fc" + callRax + "c9" + ret, HalfImm32, Unknown, Left, Left, "compared", 1},
		{"near half of gettimeofday", "488d05 05000000 486304b8" + callRax + ret + "9090 000060ff", HalfLoad, Unknown, Left, Left, "in data", 1},
		{"near half of gettimeofday, not aligned", "488d05 04000000 486304b8" + callRax + ret + "90 000060ff", 0, 0, 0, 0, "", 0},
		{"near half of time, not aligned", "488d05 04000000 486304b8" + callRax + ret + "90 000460ff", HalfLoad, Unknown, Left, Left, "in data", 1},
		{"and passed as a number", "bf 000460ff 4863c7" + callRax + ret, HalfImm32, Unknown, Left, Left, "used as a number", 1},
		{"or", "31c0 480d 000460ff" + callRax + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"or to r9", "4d31c9 4981c9 000460ff 41ffd1" + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"and with all ones", "4883c8ff 4825 000460ff" + callRax + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"xor of 32 bits, cdqe", "31c0 35 000460ff" + cdqe + callRax + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"imul by one", "b901000000 4869c1 000460ff" + callRax + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"lea from a register of 0", "31c9 488d81 000460ff" + callRax + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"lea from r12", "4d31e4 4a8d0425 000460ff" + callRax + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"lea with the scale of no register", "31ff 488d0465 000460ff" + callRax + ret, LeaDisp32, Live, Lea, Lea, "called", 1},
		{"xor of all ones", "4883c8ff 4835 fffb9f00" + callRax + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"xor of all ones in rdx", "4883caff 4881f2 fffb9f00 ffd2" + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"xor with a number", "4835 0000a000" + ret, 0, 0, 0, 0, "", 0},
		{"shifted up and down", movEax + "48c1e020 48c1f820" + callRax + ret, HalfImm32, Unknown, Left, Left, "arithmetic", 1},
		{"or with an upper half", "48b90000 0000 ffffffff" + movEax + "4809c8" + callRax + ret, HalfImm32, Unknown, Left, Left, "arithmetic", 1},
		{"base and offset", "b8 000060ff 0500040000" + cdqe + callRax + ret, HalfImm32, Unknown, Left, Left, "arithmetic", 1},
		{"pushed as 64 bits", "68 000460ff 58" + callRax + ret, PushImm32, Live, Imm, Imm, "called from there", 1},
		{"in data, movslq", "486305 f90f2000" + callRax + ret, HalfLoad, Unknown, Left, Left, "in data", 1},
		{"in data, mov, cdqe", "8b05 fa0f2000" + cdqe + callRax + ret, HalfLoad, Unknown, Left, Left, "in data", 1},
		{"in a variable", "c705 00112000 000460ff 8b05 fa102000" + cdqe + callRax + ret, HalfImm32, Unknown, Left, Left, "seen to make whole", 2},
		{"in code, movslq", "486305 03000000" + callRax + ret + "000460ff", HalfLoad, Unknown, Left, Left, "in data", 1},
		{"in data, as a number", "8b05 fa0f2000 01c0" + ret, 0, 0, 0, 0, "", 0},

		{"in the stack, with its neighbor", "55 4889e5 4883ec10 c745f8 000460ff c745fc ffffffff 488b45f8" + callRax + "c9" + ret, HalfImm32, Unknown, Left, Left, "upper half", 1},
		{"called in the stack, with its neighbor", "55 4889e5 4883ec10 c745f8 000460ff c745fc ffffffff ff55f8 c9" + ret, HalfImm32, Unknown, Left, Left, "upper half", 1},
		{"or to the stack", "55 4889e5 4883ec10 48c745f8 00000000 48814df8 000460ff ff55f8 c9" + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"in a variable, with its neighbor", "c705 00112000 000460ff c705 fa102000 ffffffff" + ret, HalfImm32, Unknown, Left, Left, "upper half", 1},
		{"through a pointer, behind its neighbor", "c74304 ffffffff c703 000460ff" + ret, HalfImm32, Unknown, Left, Left, "upper half", 1},
		{"over what is pushed", "6aff c70424 000460ff" + ret, HalfImm32, Unknown, Left, Left, "upper half", 1},
		{"in a table", "486304 85 00206000" + callRax + ret, HalfLoad, Unknown, Left, Left, "in data", 1},

		{"a colour beside a number", "c703 000060ff c74304 fffffff0" + ret, 0, 0, 0, 0, "", 0},
		{"a colour in a variable, before another one", "c705 00112000 000060ff c705 04112000 ffffffff" + ret, 0, 0, 0, 0, "", 0},
		{"a colour before what another pointer leads to", "c703 000060ff c74104 ffffffff" + ret, 0, 0, 0, 0, "", 0},
		{"a colour before what another number leads to", "c70403 000060ff c7440b04 ffffffff" + ret, 0, 0, 0, 0, "", 0},
		{"a colour before 16 bits", "c703 000060ff 66c74304 ffff" + ret, 0, 0, 0, 0, "", 0},
		{"a colour before a comparison with all ones", "c703 000060ff 837b04ff" + ret, 0, 0, 0, 0, "", 0},
		{"a colour over what is pushed", "6a01 c70424 000060ff" + ret, 0, 0, 0, 0, "", 0},
		{"a colour in the upper half of what is pushed", "6aff c7442404 000060ff" + ret, 0, 0, 0, 0, "", 0},
		{"a colour behind what is pushed", "6aff c703 000060ff" + ret, 0, 0, 0, 0, "", 0},
		{"before all ones by or", "c703 000060ff 834b04ff" + ret, HalfImm32, Unknown, Left, Left, "upper half", 1},
		{"a colour far from all ones", "c703 000060ff c74308 ffffffff" + ret, 0, 0, 0, 0, "", 0},
		{"a colour", "bf 000060ff e805000000 31c0" + ret, 0, 0, 0, 0, "", 0},
		{"that is returned", movEax + ret, HalfImm32, Unknown, Left, Left, "seen to make whole", 1},
		{"a number that is returned", "b8 000060ff" + ret, 0, 0, 0, 0, "", 0},
		{"where a push may be", "c74368 000460ff" + ret, HalfImm32, Unknown, Left, Left, "seen to make whole", 1},
		{"where a push may be, with its neighbor", "c74368 000060ff c7436c ffffffff" + ret, HalfImm32, Unknown, Left, Left, "upper half", 1},
		{"where a comparison may be", "c744483d 000460ff" + ret, HalfImm32, Unknown, Left, Left, "seen to make whole", 1},
		{"subtracted in the stack", "55 4889e5 48c745f8 00040000 48816df8 0000a000 488b45f8" + callRax + "c9" + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"machine code in a longer constant", "48b9 48b8 000060ffffff 488908 c74008 ffffffe0" + ret, ArithImm32, Unknown, Left, Left, "machine code", 1},
		{"time's machine code in a longer constant", "48b9 9049ba 000460ffff 488908" + ret, ArithImm32, Unknown, Left, Left, "machine code", 1},
		{"negated, but behind a call", "b8 00fc9f00 e805000000 48f7d8 ffd0 c3 c3", 0, 0, 0, 0, "", 0},
		{"negated, but behind a branch", "b8 00fc9f00 7400 48f7d8 ffd0 c3", 0, 0, 0, 0, "", 0},
		{"a colour behind what only looks like machine code", "c783 000048b8 000060ff c3", 0, 0, 0, 0, "", 0},
		{"10 MiB added at a distance that looks like an opcode", "81432d 00fc9f00" + ret, 0, 0, 0, 0, "", 0},
		{"an address near a constant", "b8 08104000 486304b8" + callRax + ret + "909090 b9 000460ff" + ret, 0, 0, 0, 0, "", 0},
		{"a product with a constant", "69 80 00010000 000060ff 4898" + callRax + ret, ArithImm32, Unknown, Left, Left, "arithmetic", 1},
		{"a color in a longer constant", "48b9 48b8 000060ffff00 488908" + ret, 0, 0, 0, 0, "", 0},
		{"stored with the number before it", "48b8 05000000 000460ff 488907" + ret, ArithImm32, Unknown, Left, Left, "seen to make whole", 1},
		{"or of 64 bits, returned", "480d 000060ff" + ret, ArithImm32, Unknown, Left, Left, "seen to make whole", 1},
		{"or of 32 bits, returned", "0d 000060ff" + ret, 0, 0, 0, 0, "", 0},
		{"a number that is compared", "81ff 000460ff 0f94c0" + ret, 0, 0, 0, 0, "", 0},
		{"called as it is", "b8 000060ff" + callRax + ret, 0, 0, 0, 0, "", 0},
		{"a mask", "4825 000060ff 488b00" + callRax + ret, 0, 0, 0, 0, "", 0},
		{"overwritten before the call", "b8 000060ff 01c1 488b07" + callRax + ret, 0, 0, 0, 0, "", 0},
		{"in the stack, used as a number", stored + "8b45fc c9" + ret, HalfImm32, Unknown, Left, Left, "seen to make whole", 1},
		{"in the stack, as a number of 64 bits", stored + widened + "48ffc0 c9" + ret, HalfImm32, Unknown, Left, Left, "seen to make whole", 1},
	} {
		for _, pie := range []bool{false, true} {
			if pie && c.name == "in a table" {
				continue // no such address
			}
			t.Run(c.name, func(t *testing.T) {
				e := testELF{dyn: pie, text: asm(t, c.text), data: asm(t, "000460ff 00000000"), comment: gcc4}
				e.symbols = []testSym{{"f", e.textVaddr(), uint64(len(e.text)), elf.STTFunc, 1}}
				r := scanFile(t, e.build())
				if len(r.Sites) != c.n {
					t.Fatalf("got %+v, want %d sites", r.Sites, c.n)
				}
				if c.n == 0 {
					return
				}
				s := r.Sites[0]
				if s.Kind != c.kind || s.Verdict != c.want || !strings.Contains(s.Reason, c.reason) {
					t.Errorf("got %v, %v (%s), want %v, %v (…%s…)", s.Kind, s.Verdict, s.Reason, c.kind, c.want, c.reason)
				}
				p, err := NewPlan(r, Options{})
				if err != nil {
					t.Fatal(err)
				}
				form := c.form
				if pie {
					form = c.pie
				}
				if p.Patches[0].Form != form {
					t.Errorf("PIE %v: got %v (%s), want %v", pie, p.Patches[0].Form, p.Patches[0].Reason, form)
				}
				if len(p.LeftOver()) != c.n && form == Left {
					t.Errorf("it is not a finding")
				}
			})
		}
	}
}

// TestDistances: a distance of about -40 KiB in an unwind table is not half of an address, which it is as data of the
// program, or if another number follows.
func TestDistances(t *testing.T) {
	distance := asm(t, "00000000 000460ff ff")
	number := asm(t, "00000000 000460ff 00")
	for _, c := range []struct {
		name        string
		data, table []byte
		shift       int
		n           int
	}{
		{"in an unwind table", nil, distance, 3, 0},
		{"in data", distance, nil, 3, 1},
		{"a number in an unwind table", nil, number, 3, 1},
		{"elsewhere in an unwind table", nil, distance, 0, 1},
		{"elsewhere in it", nil, distance, 2, 1},
	} {
		e := testELF{comment: gcc4, data: make([]byte, 8), text: asm(t, "486305 00000000"+callRax+"c3")}
		word := e.dataVaddr() + uint64(c.shift) + 4
		if c.table != nil {
			e.ehFrame = append(make([]byte, c.shift), c.table...)
			word += 8
		} else {
			e.data = append(make([]byte, c.shift), c.data...)
		}
		binary.LittleEndian.PutUint32(e.text[3:], uint32(word-(e.textVaddr()+7)))
		e.symbols = []testSym{{"f", e.textVaddr(), uint64(len(e.text)), elf.STTFunc, 1}}
		if got := scanFile(t, e.build()).Sites; len(got) != c.n {
			t.Errorf("%s: got %+v, want %d sites", c.name, got, c.n)
		}
	}
}

// TestLoads puts loads of half an address at the places at which the upper half of their displacement changes, and
// at the end of one piece of the segment, for few and for many words that may be loaded, side by side or apart.
func TestLoads(t *testing.T) {
	const near, apart = 8, tableSpan + 8
	for _, c := range []struct{ n, stride, odd int }{
		{1, near, 0}, {1, near, 1}, {maxSpans + 1, near, 0}, {maxSpans + 1, near, 2}, {maxSpans + 1, tableSpan, 0},
		{maxSpans, apart, 0}, {maxSpans + 1, apart, 0}, {maxSpans + 1, apart, 3},
		{2, 9, 0},
	} {
		text := bytes.Repeat([]byte{0x90}, elf.ChunkSize+1<<17)
		n, begin := c.n, 2*tableSpan+c.odd
		data := make([]byte, begin+n*c.stride)
		for i := range n {
			copy(data[begin+i*c.stride:], asm(t, "000460ff"))
		}
		e := testELF{text: text, data: data, comment: gcc4}
		at, word := e.textVaddr(), e.dataVaddr()+uint64(begin)
		want := map[uint64]bool{}
		then := callRax + "c3"
		put := func(off uint64, code string, addr uint64, found bool) {
			at, b := at+off, append(asm(t, code), 0, 0, 0, 0)
			binary.LittleEndian.PutUint32(b[len(b)-4:], uint32(addr))
			copy(text[off:], append(b, asm(t, then)...))
			e.symbols = append(e.symbols, testSym{"f", at, uint64(len(b)) + 3, elf.STTFunc, 1})
			if found {
				want[at] = true
			}
		}
		const movslq, length, pair = "486305", 7, 16
		last := word + uint64((n-1)*c.stride)
		seam := 1<<16 + uint64(uint16(last-length-at)) // the lower half of the displacement is 0
		for _, off := range []uint64{seam - 2*pair, seam - pair, seam, seam + 1 + pair, seam + 1 + 2*pair} {
			put(off, movslq, last-(at+off+length), true)
		}
		for _, d := range []int{-37, -19, -1, 17} { // wherever a piece ends
			off := uint64(elf.ChunkSize - testTextOff + d)
			put(off, movslq, word-(at+off+length), true)
		}
		put(0x100, "48630425", word, true)
		put(0x120, "48630485", word-tableSpan, true)
		put(0x140, "48630485", word-tableSpan-halfSize, false)
		put(0x160, "48630485", word-1, false)
		put(0x1c0, "48630425", word-halfSize, false)
		then = "486304b8" + then // movslq (%rax,%rdi,4),%rax
		put(0x180, "488d05", word-tableSpan-(at+0x180+length), true)
		then = "4883c008" + then // add $8,%rax
		put(0x1a0, "488d05", word-tableSpan-(at+0x1a0+length), true)
		for _, s := range scanFile(t, e.build()).Sites {
			if !want[s.Vaddr] || s.Kind != HalfLoad || s.Function != Time {
				t.Errorf("%+v: %v of %v at %#x", c, s.Kind, s.Function, s.Vaddr-at)
			}
			delete(want, s.Vaddr)
		}
		for v := range want {
			t.Errorf("%+v: the load at %#x was not found", c, v-at)
		}
	}
}

// TestTables loads half an address from a table whose address is itself loaded: from a word that the loader fills, from
// one in the file, or as a constant.
func TestTables(t *testing.T) {
	const (
		word, slot = 0x10, 0x20 // in the data
		call       = callRax + "c3"
		symbol     = 1 << 32
	)
	for _, c := range []struct {
		name, text string
		at         int64 // the address whose displacement, or 4 bytes, end the first instruction; less than 0: none
		rela       []testRela
		dyn        bool
		n          int
	}{
		{"a symbol's pointer", "488b05", slot, []testRela{{slot, elf.RGlobDat | symbol, 0}}, true, 1},
		{"a symbol and an offset", "488b05", slot, []testRela{{slot, 1 | symbol, 8}}, true, 1},
		{"a relative pointer", "488b05", slot, []testRela{{slot, elf.RRelative, word - 8}}, true, 1},
		{"a relative pointer behind it", "488b05", slot, []testRela{{slot, elf.RRelative, word + 4}}, true, 0},
		{"a relative pointer far before it", "488b05", slot, []testRela{{slot, elf.RRelative, ^uint64(tableSpan - word - 1)}}, true, 1},
		{"a relative pointer farther before it", "488b05", slot, []testRela{{slot, elf.RRelative, ^uint64(tableSpan - word)}}, true, 0},
		{"a relative pointer, with a needless prefix", "498b05", slot, []testRela{{slot, elf.RRelative, word - 8}}, true, 1},
		{"a function's pointer", "488b05", slot, []testRela{{slot, elf.RJumpSlot | symbol, 0}}, true, 0},
		{"a pointer in the file", "488b05", slot + 8, nil, false, 1},
		{"a pointer to the word itself", "488b05", slot + 40, nil, false, 1},
		{"another one, behind a number", "488b05", slot + 80, nil, false, 1},
		{"another one, behind two", "488b05", slot + 120, nil, false, 1},
		{"another one, behind three", "488b05", slot + 160, nil, false, 1},
		{"a pointer behind the word", "488b05", slot + 200, nil, false, 0},
		{"half a pointer", "8b05", slot + 8, nil, false, 0},
		{"a pointer in the file, by its address", "488b0425", slot + 8, nil, false, 1},
		{"a pointer in a library, by an address", "488b0425", slot, []testRela{{slot, elf.RRelative, word - 8}}, true, 0},
		{"an array's address by lea of 32 bits", "8d05", slot + 8, nil, false, 1},
		{"an array of pointers", "488b04fd", slot + 8, nil, false, 1},
		{"a number", "b8", word - 8, nil, false, 1},
		{"a number behind it", "b8", word + 4, nil, false, 0},
		{"a number that is added", "81c0", word - 8, nil, false, 0},
		{"a sign-extended number", "48c7c0", word - 8, nil, false, 1},
		{"a number in a library", "b8", word - 8, nil, true, 0},
		{"an array's address", "488d05", slot + 8, nil, false, 1},
		{"an array's address, and half a pointer", "488d05", slot + 8, nil, false, 0},
		{"an array's address, and a number", "488d05", slot + 8, nil, false, 1},
		{"an address before the array's", "488d05", slot, nil, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			then := "486304b8" + call // movslq (%rax,%rdi,4),%rax
			if strings.HasSuffix(c.text, "8d05") {
				then = "488b04f8" + then // mov (%rax,%rdi,8),%rax
				switch {
				case strings.HasSuffix(c.name, "and a number"):
					then = "4883c008" + then // add $8,%rax
				case strings.HasSuffix(c.name, "and half a pointer"):
					then = then[2:] // mov (%rax,%rdi,8),%eax
				}
			}
			e := testELF{dyn: c.dyn, dynamic: c.dyn, data: make([]byte, slot+208), comment: gcc4}
			e.text = append(asm(t, c.text), asm(t, "00000000"+then)...)
			copy(e.data[word:], asm(t, "000460ff"))
			binary.LittleEndian.PutUint64(e.data[slot+8:], e.dataVaddr()+word-8)
			for n := slot + 40; n < len(e.data); n += 40 {
				binary.LittleEndian.PutUint64(e.data[n:], e.dataVaddr()+word)
			}
			binary.LittleEndian.PutUint64(e.data[slot+200:], e.dataVaddr()+word+4)
			e.symbols = []testSym{{"table", e.dataVaddr() + word - 8, 16, elf.STTObject, 1}, {"f", e.textVaddr(), uint64(len(e.text)), elf.STTFunc, 1}}
			field := len(asm(t, c.text))
			to := e.dataVaddr() + uint64(c.at)
			if c.text[len(c.text)-2:] == "05" { // relative to rip
				to -= e.textVaddr() + uint64(field) + 4
			}
			binary.LittleEndian.PutUint32(e.text[field:], uint32(to))
			for _, r := range c.rela {
				r.at += e.dataVaddr()
				if r.typ == elf.RRelative {
					r.addend += e.dataVaddr()
				}
				e.rela = append(e.rela, r)
			}
			r := scanFile(t, e.build())
			if len(r.Sites) != c.n || c.n > 0 && (r.Sites[0].Kind != HalfLoad || r.Sites[0].Verdict != Unknown || r.Sites[0].Vaddr != e.textVaddr()) {
				t.Fatalf("got %+v, want %d", r.Sites, c.n)
			}
		})
	}
}
