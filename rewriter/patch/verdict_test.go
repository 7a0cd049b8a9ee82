package patch

import (
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
)

// Each test is machine code by hand with the expected result of Scan. %mov is the reference.
const (
	movRaxTime = "48c7c0 000460ff\n"
	movRaxGtod = "48c7c0 000060ff\n"
	movRaxCPU  = "48c7c0 000860ff\n"
	movRdxGtod = "48c7c2 000060ff\n"
	movR13Time = "49c7c5 000460ff\n"
	absR13Time = "49bd 000460ffffffffff\n"
	callRax    = "ffd0\n"
	manglesRax = "6448330425 30000000 ; xor %fs:0x30,%rax\n 48c1c011 ; rol $0x11,%rax\n"
	storeRax   = "488905 00102000 ; mov %rax,0x201000(%rip)\n"
)

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Verdict
		reason     string // part of it
		calls      int
		call       uint64 // offset from the start of the text; 0 without one
	}{
		{"mov, call", movRaxTime + callRax + "c3", Live, "called", 1, 7},
		{"movabs, call *%r13", "4155" + absR13Time + "41ffd5 415d c3", Live, "called", 1, 12},
		{"mov, tail jmp", movRaxTime + "ffe0", Live, "called", 1, 7},
		{"instructions between, as libjvm", "55 31d2 31f6\n" + movRaxCPU + "4889e5 4883ec10 488d7dfc c745fc00000000" + callRax + "c9 c3",
			Live, "called", 1, 30},
		{"hoisted out of a loop", "4155" + movR13Time + "31ff 41ffd5 ; call\n 85c0 75f7 ; jne to xor\n 415d c3", Live, "called", 1, 11},
		{"two calls through a callee-saved register", "4155" + movR13Time + "41ffd5 41ffd5 415d c3", Live, "called", 2, 9},
		{"copied to another register", movRaxTime + "4889c3 ; mov %rax,%rbx\n ffd3 5b c3", Live, "called", 1, 10},
		{"called, then the register is left to the caller", movR13Time + "41ffd5 c3", Unknown, "callee-saved", 1, 7},
		{"a jump to the call", movRaxTime + "eb02 0f0b" + callRax + "c3", Live, "called", 1, 11},
		{"called on one branch only", movRaxTime + "85ff 7403" + callRax + "c3 31c0 c3", Live, "called", 1, 11},

		{"compared", movRdxGtod + "4839d7 0f94c0 31d2 c3", Benign, "compared", 0, 0},
		{"compared, and in a register at a long nop", movRdxGtod + "4839d7 0f94c0 0f1f4000 31d2 c3", Benign, "compared", 0, 0},
		{"compared, and in a register where memory is read", movRdxGtod + "4839d7 0f94c0 8a07 31d2 c3", Unknown, "or a fault", 0, 0},
		{"tested", movRdxGtod + "4885d2 31d2 c3", Benign, "compared", 0, 0},
		{"tested on the stack", "48c74424f8 000060ff 48857c24f8 31c0 c3", Benign, "compared", 0, 0},
		{"compared and called", movRaxTime + "4839f8 7402" + callRax + "31c0 c3", Unknown, "compared", 1, 12},
		{"overwritten", movRaxTime + "31c0 c3", Unknown, "nothing is seen to use it", 0, 0},

		{"cmov, then called", movRdxGtod + "4885c0 480f44c2" + callRax + "c3", DormantCall, "conditional move", 1, 14},
		{"cmov, mangled, stored", movRdxGtod + "4885c0 480f44c2" + manglesRax + storeRax + "31d2 c3", DormantCall, "PTR_MANGLE", 0, 0},
		{"a branch, mangled, stored", "4885c0 7507" + movRaxGtod + manglesRax + storeRax + "c3", DormantCall, "PTR_MANGLE", 0, 0},
		{"rotated by another amount", movRaxGtod + "6448330425 30000000 48c1c012" + storeRax + "c3", Unknown, "ROL", 0, 0},
		{"rotated to the other side", movRaxGtod + "6448330425 30000000 48c1c811" + storeRax + "c3", Unknown, "ROR", 0, 0},
		{"xor with another slot", movRaxGtod + "6448330425 28000000 48c1c011" + storeRax + "c3", Unknown, "XOR", 0, 0},
		{"xor without rol", movRaxGtod + "6448330425 30000000" + storeRax + "c3", Unknown, "stored", 0, 0},

		{"cmov over AT_SYSINFO_EHDR, stored plainly", "be21000000" + movRdxGtod + "4885c0 480f44c2" + storeRax + "31d2 31c0 c3", Dormant, "image base", 0, 0},
		{"cmov over AT_SYSINFO_EHDR, stored plainly, and left in a register", "be21000000" + movRdxGtod + "4885c0 480f44c2" + storeRax + "31c0 c3", Dormant, "image base", 0, 0},
		{"moved to a register of segments", movRaxGtod + "488ed8 31c0 c3", Unknown, "truncated", 0, 0},
		{"xor with an element", movRaxGtod + "644833040d 30000000 48c1c011" + storeRax + "c3", Unknown, "XOR", 0, 0},
		{"xor with memory at another address", movRaxGtod + "6448334130 48c1c011" + storeRax + "c3", Unknown, "XOR", 0, 0},
		{"cmov over AT_SYSINFO_EHDR, stored plainly, and called", "be21000000" + movRdxGtod + "4885c0 480f44c2" + storeRax + callRax + "31d2 c3", Unknown, "variable", 1, 26},
		{"cmov, stored plainly", movRdxGtod + "4885c0 480f44c2" + storeRax + "31d2 31c0 c3", Unknown, "variable", 0, 0},
		{"cmov of time, stored plainly", "48c7c2 000460ff 4885c0 480f44c2" + storeRax + "31d2 31c0 c3", Unknown, "variable", 0, 0},
		{"stored plainly", movRaxGtod + storeRax + "c3", Unknown, "stored in memory", 0, 0},
		{"stored over the return address", movRaxGtod + "48890424 c3", Live, "only called", 1, 11},
		{"stored over a part of the return address", "48c7442401 000460ff c3", Unknown, "frame of a caller", 0, 0},
		{"called from the stack, and another word, by an odd encoding", "4883ec18 48c70424 000460ff 488b44e408 ffd0 4883c418 c3", Unknown, "passed to a function", 0, 0},
		{"called from the stack, whose address the page gets", "4883ec18 48c7442408 000460ff 4889e7 ff542408 4883c418 c3", Live, "from there", 1, 16},
		{"called from the stack, whose address the page gets by lea", "4883ec18 48c7442408 000460ff 488d3c24 ff542408 4883c418 c3", Live, "from there", 1, 17},
		{"called from the stack, whose address is compared", "4883ec18 48c7442408 000460ff 4839e7 ff542408 4883c418 c3", Live, "from there", 1, 16},
		{"called from the stack, whose address is added to", "4883ec18 48c7442408 000460ff 4801e7 ff542408 4883c418 c3", Unknown, "address of the stack", 1, 16},
		{"called, and again with the address of the stack", "4883ec18 48c7c1 000460ff 48890c24 ffd1 488d3c24 ffd1 31c9 ff1424 4883c418 c3", Live, "from there", 3, 15},
		{"chosen of two, and called with the address of the stack", "4883ec18" + movRdxGtod + "4889d0 480f44c2 48890424 31d2 4889e7 ffd0 4883c418 c3", DormantCall, "conditional move", 1, 27},
		{"called from the stack, and the word is overwritten in part later", "4883ec18" + movRaxTime + "48890424 4889442410 ff1424 48c70424 00000000 48897c2404 ff542410 4883c418 c3", Live, "from there", 2, 20},
		{"in one of two frames", "55 85ff 7405 4889e5 eb05 488d6c2408 48c745f0 000460ff ff55f0 5d c3", Unknown, "stored in memory", 0, 0},
		{"in the frame, and what the frame pointer is the index of", "55 4889e5 4883ec10 48c745f8 000460ff 488b04ef ffd0 c9 c3", Unknown, "MOV in memory", 0, 0},
		{"on the stack, where an array may be", "4883ec18 488b04bc 31c0 48c70424 000460ff ff1424 4883c418 c3", Unknown, "an array", 1, 18},
		{"on the stack, where an element of an array is stored", "4883ec18 48c70424 000460ff 48890cfc ff1424 4883c418 c3", Unknown, "MOV in memory", 1, 16},
		{"read by jrcxz, then called", "48c7c1 000460ff e301 90 ffd1 c3", Unknown, "JRCXZ", 1, 10},
		{"counted by loop", "48c7c1 000460ff e200 31c9 c3", Unknown, "LOOP", 0, 0},
		{"in a register that a breakpoint shows, and compared", movRdxGtod + "4839d7 cc 31d2 c3", Unknown, "or a fault", 0, 0},
		{"in a register at a system call, and compared", movR13Time + "4939fd 0f05 4d31ed c3", Unknown, "or a fault", 0, 0},
		{"called after a flag is set by it", movRaxTime + "0f94c0 ffd0 c3", Unknown, "SETE", 0, 0},
		{"both of it exchanged with memory", movRaxTime + "488705 00102000 c3", Unknown, "XCHG", 0, 0},
		{"mangled twice", movRaxGtod + manglesRax + manglesRax + storeRax + "c3", Unknown, "nothing is seen", 0, 0},
		{"mangled in 32 bits", movRaxGtod + "64330425 30000000 c1c011" + storeRax + "c3", Unknown, "XOR", 0, 0},
		{"a mangled address is called", movRaxGtod + manglesRax + callRax + "c3", Unknown, "while mangled", 0, 0},
		{"half of the mangling is called", movRaxGtod + "6448330425 30000000" + callRax + "c3", Unknown, "while mangled", 0, 0},
		{"returned", movRaxGtod + "c3", Unknown, "returned", 0, 0},
		{"second half of a result", movRdxGtod + "31c0 c3", Unknown, "left in a register", 0, 0},
		{"passed to a function that reads it", "48c7c7 000060ff e801000000 c3\n 488b07 c3", Unknown, "memory address", 0, 0},
		{"passed to a pointer", "48c7c7 000060ff ffd0 31ff c3", Unknown, "argument", 0, 0},
		{"passed to the vsyscall itself", "48c7c0 000460ff 4889c7" + callRax + "c3", Unknown, "argument", 1, 10},
		{"passed to a system call", "48c7c7 000060ff 0f05 31ff c3", Unknown, "system call", 0, 0},
		{"pushed and popped", movRaxGtod + "50 58 31c0 c3", Unknown, "nothing is seen", 0, 0},
		{"pushed, popped, called", movRaxGtod + "50 5a ffd2 c3", Live, "from there", 1, 9},
		{"pushed and returned to", movRaxGtod + "50 c3", Live, "from there", 1, 8},
		{"pushed and passed by address", movRaxGtod + "50 4889e7 e801000000 c3 488b07 c3", Unknown, "address of the stack", 1, 16},
		{"left in r11", "49c7c3 000060ff c3", Unknown, "left in a register", 0, 0},
		{"called twice through r11", "49c7c3 000460ff 41ffd3 41ffd3 c3", Live, "called", 2, 7},
		{"the flags are read after the call", movRaxTime + callRax + "7401 90 c3", Live, "called", 1, 7},
		{"added to", movRaxGtod + "4883c008 ffd0 c3", Unknown, "ADD", 0, 0},
		{"truncated", movRaxGtod + "89c7 31c0 c3", Unknown, "truncated", 0, 0},
		{"changed in part", movRaxGtod + "b404 ffd0 c3", Unknown, "MOV", 0, 0},
		{"read through", movRaxGtod + "488b10 31c0 c3", Unknown, "memory address", 0, 0},
		{"in an address", movRaxGtod + "488d5008 31c0 c3", Unknown, "LEA", 0, 0},
		{"an indirect jump", movRdxGtod + "ffe0", Unknown, "indirect jump", 0, 0},
		{"bytes that are not an instruction", movRaxGtod + "06 c3", Unknown, "not a known instruction", 0, 0},
		{"an instruction without a rule", movRaxGtod + "d7 31c0 c3", Unknown, "not known", 0, 0},
		{"runs off the segment", movRaxGtod + "90", Unknown, "not a known instruction", 0, 0},
		{"exchanged, then called", movRaxTime + "4893 ; xchg %rax,%rbx\n ffd3 5b c3", Live, "called", 1, 9},
		{"a long nop that names the register", movRaxTime + "0f1f840000000000" + callRax + "c3", Live, "called", 1, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testELF{text: asm(t, c.text)}
			r := scanFile(t, e.build())
			if len(r.Sites) != 1 {
				t.Fatalf("got %d sites, want 1: %+v", len(r.Sites), r.Sites)
			}
			s := r.Sites[0]
			if s.Verdict != c.want || !strings.Contains(s.Reason, c.reason) {
				t.Errorf("got %v (%s), want %v (…%s…)", s.Verdict, s.Reason, c.want, c.reason)
			}
			if s.Verdict.Patchable() != (c.want == Live || c.want == DormantCall) {
				t.Errorf("patchable: %v", s.Verdict.Patchable())
			}
			want := uint64(0)
			if c.call != 0 {
				want = e.textVaddr() + c.call
			}
			if s.Calls != c.calls || s.Call != want {
				t.Errorf("got %d calls, first at %#x; want %d, %#x", s.Calls, s.Call, c.calls, want)
			}
		})
	}
}

// TestCallee is about values that stay in argument registers over a call: gcc's -fipa-ra keeps them if it knows
// the callee.
func TestCallee(t *testing.T) {
	const use = "4885c0 480f44c2" + manglesRax + storeRax + "31d2 c3\n"
	for _, c := range []struct {
		name, text string
		want       Verdict
		reason     string
	}{
		{"kept: the callee leaves it alone", movRdxGtod + "e81e000000" + use + "31c0 c3", DormantCall, "PTR_MANGLE"},
		{"an argument: the callee reads it", movRdxGtod + "e81e000000" + use + "4885d2 c3", Unknown, "compared"},
		{"an argument: the callee jumps away", movRdxGtod + "e81e000000" + use + "ff25 00000000", Unknown, "argument"},
		{"gone: the callee overwrites it", movRdxGtod + "e81e000000" + use + "31d2 c3", Unknown, "nothing is seen"},
		{"an argument of the callee's callee", movRdxGtod + "e81e000000" + use + "e801000000 c3 488b02 c3", Unknown, "memory address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testELF{text: asm(t, c.text)}
			r := scanFile(t, e.build())
			if len(r.Sites) != 1 || r.Sites[0].Verdict != c.want || !strings.Contains(r.Sites[0].Reason, c.reason) {
				t.Fatalf("got %+v, want one %v (…%s…)", r.Sites, c.want, c.reason)
			}
		})
	}
}

// TestIfunc is about the resolvers of glibc 2.14 to 2.21.
func TestIfunc(t *testing.T) {
	const text = "4883ec08" + movRdxGtod + "4885c0 480f44c2 4883c408 c3"
	const at = testTextOff
	for _, c := range []struct {
		name string
		e    testELF
		want Verdict
	}{
		{"a plain function", testELF{symbols: []testSym{{"gettimeofday", at, 23, elf.STTFunc, 1}}}, Unknown},
		{"an IFUNC symbol", testELF{symbols: []testSym{{"gettimeofday", at, 23, elf.STTGNUIfunc, 1}}}, DormantCall},
		{"an IRELATIVE relocation", testELF{rela: []testRela{{at: 0x201000, typ: elf.RIrelative, addend: at}}}, DormantCall},
		{"a RELATIVE relocation", testELF{rela: []testRela{{at: 0x201000, typ: elf.RRelative, addend: at}}}, Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.e.dyn, c.e.dynamic, c.e.text = true, true, asm(t, text)
			r := scanFile(t, c.e.build())
			if len(r.Sites) != 1 || r.Sites[0].Verdict != c.want {
				t.Fatalf("got %+v, want one %v", r.Sites, c.want)
			}
		})
	}
}

// TestSlot is about dietlibc's variable with an image base.
func TestSlot(t *testing.T) {
	store := movRdxGtod + "4885c0 480f44c2 48890500002000 31d2 31c0 c3\n" // 0x1a bytes; the slot is 0x200015 after the text
	for _, c := range []struct {
		name, load string
		want       Verdict
	}{
		{"only stored", "", Unknown},
		{"only tested", "48833d f3ff1f00 00 c3", Unknown},
		{"read as an image", "488b05 f4ff1f00 ; mov slot(%rip),%rax\n 488b4020 31c0 c3", Dormant},
		{"read as an image, then tested", "488b05 f4ff1f00 488b4020 31c0 48833d e6ff1f00 00 c3", Dormant},
		{"called", "488b05 f4ff1f00 ffd0 c3", Unknown},
		{"returned", "488b05 f4ff1f00 c3", Unknown},
		{"called through memory", "ff15 f5ff1f00 c3", Unknown},
		{"its address taken", "488d05 f4ff1f00 c3", Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testELF{text: asm(t, store+c.load)}
			r := scanFile(t, e.build())
			if len(r.Sites) != 1 || r.Sites[0].Verdict != c.want {
				t.Fatalf("got %+v, want one %v", r.Sites, c.want)
			}
			if (r.Libc == "dietlibc") != (c.want == Dormant) {
				t.Errorf("libc %q", r.Libc)
			}
		})
	}
}

// TestReturnThunk: a callee that drops or replaces its return address returns elsewhere, with the values of the
// registers, as with gcc's -mfunction-return=thunk.
func TestReturnThunk(t *testing.T) {
	const thunk = "e807000000 f390 0faee8 ebf9 "
	for name, c := range map[string]struct {
		text string
		want Verdict
	}{
		"drops it by lea":  {movRaxTime + thunk + "488d642408 c3", Unknown},
		"drops it by add":  {movRaxTime + thunk + "4883c408 c3", Unknown},
		"drops it by pop":  {movRaxTime + thunk + "59 c3", Unknown},
		"replaces it":      {movRaxTime + thunk + "48893c24 c3", Unknown},
		"keeps it":         {movRaxTime + thunk + "57 5f 31c0 c3", Unknown},
		"keeps it, by add": {movRaxTime + thunk + "57 4883c408 31c0 c3", Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			e := testELF{text: asm(t, c.text)}
			e.symbols = []testSym{{"f", e.textVaddr(), 19, elf.STTFunc, 0}, {"thunk", e.textVaddr() + 19, 20, elf.STTFunc, 0}}
			if s := scanFile(t, e.build()).Sites[0]; s.Verdict != c.want {
				t.Errorf("got %v (%s), want %v", s.Verdict, s.Reason, c.want)
			}
		})
	}
}

// TestBranchThunk: a callee that jumps to its caller's register, as with -mindirect-branch.
func TestBranchThunk(t *testing.T) {
	const caller = "4155" + movR13Time + "e803000000 415d c3 "
	for name, c := range map[string]struct {
		thunk string
		want  Verdict
	}{
		"a jump":           {"41ffe5", Live},
		"behind a fence":   {"0faee8 41ffe5", Live},
		"by a return":      {"e807000000 f390 0faee8 ebf9 4c892c24 c3", Live},
		"saved and used":   {"4155 4989fd 41ffd5 415d c3", Unknown},
		"another register": {"41ffe4", Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			e := testELF{text: asm(t, caller+c.thunk)}
			e.symbols = []testSym{{"f", e.textVaddr(), 17, elf.STTFunc, 0}, {"thunk", e.textVaddr() + 17, 20, elf.STTFunc, 0}}
			if s := scanFile(t, e.build()).Sites[0]; s.Verdict != c.want {
				t.Errorf("got %v (%s), want %v", s.Verdict, s.Reason, c.want)
			}
		})
	}
}

// TestValgrind: an address that a vector register copies with what is beside it is an entry of valgrind's table if the
// program compares with the page as well, and has valgrind's name.
func TestValgrind(t *testing.T) {
	const copies = "48c74424e8 000060ff 48c74424f0 00000000 0f104424e8 0f1107 c3\n"
	const compares = "483d 000060ff 0f94c0 c3"
	for _, c := range []struct {
		name, text, data string
		want             Verdict
	}{
		{"both", copies + compares, "VALGRIND_LAUNCHER", Benign},
		{"another name", copies + compares, "VALGRIND_LAUNCHES", Unknown},
		{"no comparison", copies, "VALGRIND_LAUNCHER", Unknown},
		{"followed too far", strings.Replace(copies, "c3", strings.Repeat("0f1f00", maxFlow)+"c3", 1) + compares, "VALGRIND_LAUNCHER", Unknown},
		{"called as well", strings.Replace(copies, "c3", "ff5424e8 c3", 1) + compares, "VALGRIND_LAUNCHER", Unknown},
		{"read as well", strings.Replace(copies, "c3", "488b4424e8 488b00 c3", 1) + compares, "VALGRIND_LAUNCHER", Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testELF{text: asm(t, c.text), data: []byte(c.data)}
			e.symbols = []testSym{{"f", e.textVaddr(), uint64(len(e.text)), elf.STTFunc, 1}}
			if r := scanFile(t, e.build()); len(r.Sites) == 0 || r.Sites[0].Verdict != c.want {
				t.Errorf("got %+v, want %v", r.Sites, c.want)
			}
		})
	}
}
