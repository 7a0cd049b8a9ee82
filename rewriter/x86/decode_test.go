package x86

import (
	"encoding/hex"
	"testing"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEffects: lengths, flow, and the registers that an instruction touches and overwrites.
func TestEffects(t *testing.T) {
	set := RegsOf
	for _, c := range []struct {
		name, code string
		touches    Regs
		overwrites Regs
		flow       FlowKind
	}{
		{"mov %rdi,%rbx", "4889fb", set(Rdi, Rbx), set(Rbx), FlowNext},
		{"mov %edi,%ebx", "89fb", set(Rdi, Rbx), set(Rbx), FlowNext},
		{"mov %dil,%bl", "4088fb", set(Rdi, Rbx), 0, FlowNext},
		{"mov %bh,%al", "88f8", set(Rax, Rbx), 0, FlowNext},
		{"mov %rbx,%rbx", "4889db", set(Rbx), 0, FlowNext},
		{"mov (%rax),%rax", "488b00", set(Rax), 0, FlowNext},
		{"mov %rdi,(%rbx,%rcx,8)", "48893ccb", set(Rdi, Rbx, Rcx), 0, FlowNext},
		{"lea 8(%rbx),%r12", "4c8d6308", set(Rbx, R12), set(R12), FlowNext},
		{"xor %ebx,%ebx", "31db", set(Rbx), set(Rbx), FlowNext},
		{"xor %edi,%ebx", "31fb", set(Rdi, Rbx), 0, FlowNext},
		{"sub %rbx,%rbx", "4829db", set(Rbx), set(Rbx), FlowNext},
		{"cmp %rbx,%rbx", "4839db", set(Rbx), 0, FlowNext},
		{"add $8,%rbx", "4883c308", set(Rbx), 0, FlowNext},
		{"push %rbx", "53", set(Rbx), 0, FlowNext},
		{"pop %rbx", "5b", set(Rbx), set(Rbx), FlowNext},
		{"imul %rdi,%rbx", "480fafdf", set(Rdi, Rbx), 0, FlowNext},
		{"imul %rdi", "48f7ef", implicit, 0, FlowNext},
		{"cqo", "4899", implicit, 0, FlowNext},
		{"rep movsq", "f348a5", implicit, 0, FlowNext},
		{"cpuid", "0fa2", implicit, 0, FlowNext},
		{"sete %bl", "0f94c3", set(Rbx), 0, FlowNext},
		{"cmove %rdi,%rbx", "480f44df", set(Rdi, Rbx), 0, FlowNext},
		{"leave", "c9", set(Rbp), 0, FlowNext},
		{"nopw (%rax,%rax)", "660f1f840000000000", 0, 0, FlowNext},
		{"nop %eax", "0f1fc0", 0, 0, FlowNext},
		{"stc", "f9", 0, 0, FlowNext},
		{"movq %rbx,%xmm0", "66480f6ec3", set(Rbx), 0, FlowNext},
		{"pcmpistri $1,%xmm1,%xmm0", "660f3a63c101", implicit, 0, FlowNext},
		{"fildll (%rdi)", "df2f", set(Rdi), 0, FlowNext},
		{"endbr64", "f30f1efa", 0, 0, FlowNext},
		{"vzeroupper", "c5f877", 0, 0, FlowNext},
		{"vzeroupper, with three bytes of VEX", "c4e17877", 0, 0, FlowNext},
		{"adcx %rdi,%r12", "664c0f38f6e7", set(Rdi, R12), 0, FlowNext},
		{"vzeroall", "c5fc77", 0, 0, FlowNext},
		{"vzeroall, with three bytes of VEX", "c4e17c77", 0, 0, FlowNext},
		{"mov %sil,8(%rdi), which has bytes of vzeroupper", "40887708", set(Rsi, Rdi), 0, FlowNext},
		{"adcx %edi,%ebx", "660f38f6df", set(Rdi, Rbx), 0, FlowNext},
		{"mov $1,%rax", "48c7c001000000", set(Rax), set(Rax), FlowNext},
		{"xor $0,%rax", "4883f000", set(Rax), 0, FlowNext},
		{"cmova %rdi,%rbx", "480f47df", set(Rdi, Rbx), 0, FlowNext},
		{"cmovs %rdi,%rbx", "480f48df", set(Rdi, Rbx), 0, FlowNext},
		{"fxsave (%rdi)", "0fae07", implicit, 0, FlowNext},
		{"vmovaps %xmm1,%xmm0", "c5f828c1", 0, 0, FlowNext},
		{"vmovaps %xmm1,%xmm0, with three bytes of VEX", "c4e17828c1", 0, 0, FlowNext},
		{"mov %sil,8(%r15), which has bytes of vzeroupper", "6641887708", set(Rsi, 15), 0, FlowNext},
		{"adox %rdi,%r12", "f34c0f38f6e7", set(Rdi, R12), 0, FlowNext},
		{"hlt", "f4", 0, 0, FlowStop},
		{"enter", "c8100000", set(Rbp), 0, FlowNext},
		{"syscall", "0f05", implicit, 0, FlowNext},
		{"maskmovdqu %xmm1,%xmm0", "660ff7c1", implicit, 0, FlowNext},
		{"jecxz", "67e310", set(Rcx), 0, FlowCond},
		{"loope", "e110", set(Rcx), 0, FlowCond},
		{"loopne", "e010", set(Rcx), 0, FlowCond},
		{"lret", "cb", implicit, 0, FlowRet},
		{"iretw", "66cf", implicit, 0, FlowRet},
		{"iret", "cf", implicit, 0, FlowRet},
		{"iretq", "48cf", implicit, 0, FlowRet},
		{"ud1", "0fb9c0", implicit, 0, FlowStop},
		{"jmp", "eb10", 0, 0, FlowJump},
		{"je", "0f8410000000", 0, 0, FlowCond},
		{"jrcxz", "e310", set(Rcx), 0, FlowCond},
		{"loop", "e210", set(Rcx), 0, FlowCond},
		{"call", "e810000000", 0, 0, FlowCall},
		{"call *%rdx", "ffd2", set(Rdx), 0, FlowCallInd},
		{"call *8(%rdx)", "ff5208", set(Rdx), 0, FlowCallInd},
		{"jmp *(%rax,%rcx,8)", "ff24c8", set(Rax, Rcx), 0, FlowIndirect},
		{"notrack jmp *%rax", "3effe0", set(Rax), 0, FlowIndirect},
		{"repz ret", "f3c3", 0, 0, FlowRet},
		{"ud2", "0f0b", 0, 0, FlowStop},
	} {
		b := unhex(t, c.code)
		i, ok := Decode(append(b[:len(b):len(b)], unhex(t, "48c7c3000460ffffd3")...), 0x1000)
		if !ok || i.Len != len(b) || i.Flow != c.flow {
			t.Errorf("%s: decoded %v, %d bytes, flow %d", c.name, ok, i.Len, i.Flow)
			continue
		}
		if i.Touches() != c.touches || i.Overwrites() != c.overwrites {
			t.Errorf("%s: touches %#x, overwrites %#x; want %#x, %#x", c.name, i.Touches(), i.Overwrites(), c.touches, c.overwrites)
		}
	}
}

// TestCallsThrough: the register of a call or jump, if all of it is the target.
func TestCallsThrough(t *testing.T) {
	for code, want := range map[string]int{"ffd0": Rax, "41ffe3": R11, "ff10": -1, "e800000000": -1, "ffe3": Rbx, "4889fb": -1} {
		i, _ := Decode(unhex(t, code), 0)
		if r, ok := i.CallsThrough(); ok != (want >= 0) || ok && r != want {
			t.Errorf("%s: got %d, %v", code, r, ok)
		}
	}
}

// TestMemory: displacements of 4 bytes are signed, and those relative to rip give an address.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		name, code string
		disp       int64
		vaddr      uint64
	}{
		{"mov %rdx,-0xa0(%rbp)", "48899560ffffff", -0xa0, 0},
		{"mov %rdx,-8(%rbp)", "488955f8", -8, 0},
		{"lea -0x100(%rip),%rax", "488d0500ffffff", -0x100, 0x1000 + 7 - 0x100},
		{"mov 0x601000,%eax", "8b042500106000", 0x601000, 0x601000},
		{"mov -8(,%rcx,8),%rax", "488b04cdf8ffffff", -8, 0},
		{"mov %fs:0x30,%rax", "64488b042530000000", 0x30, 0},
		{"mov %gs:0x30,%rax", "65488b042530000000", 0x30, 0},
	} {
		i, ok := Decode(unhex(t, c.code), 0x1000)
		m, isMem := i.Mem()
		if v, fixed := i.MemVaddr(); !ok || !isMem || m.Disp != c.disp || fixed != (c.vaddr != 0) || v != c.vaddr {
			t.Errorf("%s: decoded %v, displacement %#x, vaddr %#x", c.name, ok, m.Disp, v)
		}
	}
}

// TestOperands: the number and width of general registers, and memory only if the instruction has such an operand.
func TestOperands(t *testing.T) {
	for code, want := range map[string][2]int{
		"88d8": {Rax, 8}, "88dc": {Rax, 8}, "4088de": {Rsi, 8}, "4488d8": {Rax, 8}, "4588df": {15, 8}, "6689d8": {Rax, 16}, "664189df": {15, 16},
		"89d8": {Rax, 32}, "4189df": {15, 32}, "4889d8": {Rax, 64}, "4989df": {15, 64}, "0f28c1": {0, 0},
	} {
		i, ok := Decode(unhex(t, code), 0)
		r, width, isGPR := i.ArgGPR(0)
		if !ok || r != want[0] || width != want[1] || isGPR != (width > 0) {
			t.Errorf("%s: got %d, %d bits, %v", code, r, width, isGPR)
		}
		_, mem := i.Mem()
		if _, fixed := i.MemVaddr(); mem || fixed {
			t.Errorf("%s: has an operand in memory", code)
		}
	}
}

func TestUndecodable(t *testing.T) {
	for name, code := range map[string]string{
		"nothing": "", "prefixes alone": "f3", "prefixes without end": "66666666666666666666666666666690", "cut short": "48c7c00004",
		"vzeroupper with an operand size": "c5f977", "the same with three bytes of VEX": "c4e17977", "of another map": "c4e27877",
		"not in 64-bit mode": "06", "wrssq, which begins as adcx does": "480f38f608",
	} {
		if i, ok := Decode(unhex(t, code), 0); ok {
			t.Errorf("%s: got %v", name, i.Inst)
		}
	}
}

// TestText: instructions as objdump writes them.
func TestText(t *testing.T) {
	for code, want := range map[string]string{
		"48c7c0000460ff":   "mov $0xffffffffff600400,%rax",
		"ffd0":             "call *%rax",
		"c3":               "ret",
		"f30f1efa":         "endbr64",
		"488d0500010000":   "lea 0x100(%rip),%rax  # 0x1107",
		"83e0fc":           "and $0xfffffffc,%eax",
		"8b042500106000":   "mov 0x601000,%eax",
		"c5f877":           "vzeroupper",
		"c5fc77":           "vzeroall",
		"664c0f38f6e7":     "adcx %rdi,%r12",
		"64488b0425000000": ".byte 0x64", // cut short
	} {
		b := unhex(t, code)
		i, _ := Decode(b, 0x1000)
		if got := i.Text(b); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
}

// TestListing: each side has its own instructions, and the rest of an old one is not decoded across the next.
func TestListing(t *testing.T) {
	before := unhex(t, "4883ec0848c7c0000460ffffd0c3")
	after := unhex(t, "e900000000660f1f440000ffd0c3")
	b, a := Listing(before, after, 0x1000)
	text := func(lines []Line) (all string) {
		for _, l := range lines {
			if all += l.Text; l.Changed {
				all += "*"
			}
			all += ";"
		}
		return all
	}
	if got, want := text(b), "sub $0x8,%rsp*;mov $0xffffffffff600400,%rax*;call *%rax;ret;"; got != want {
		t.Errorf("before: got %s, want %s", got, want)
	}
	if got, want := text(a), "jmp 0x1005*;nopw (%rax,%rax)*;call *%rax;ret;"; got != want {
		t.Errorf("after: got %s, want %s", got, want)
	}
	a[2].Bury()
	if !a[2].Dead || a[2].Text != "(never runs)" || a[0].To() != 0x1005 || b[1].To() != 0xffffffffff600400 {
		t.Errorf("got %+v", a)
	}
}
