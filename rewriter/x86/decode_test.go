package x86

import (
	"encoding/hex"
	"testing"
)

func unhex(t *testing.T, code string) []byte {
	t.Helper()
	b, err := hex.DecodeString(code)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEffects compares the table's effects of instructions with the SDM.
func TestEffects(t *testing.T) {
	set := func(r ...int) Regs { return RegsOf(r...) }
	for _, c := range []struct {
		name, code             string
		reads, writes, partial Regs
		flow                   FlowKind
	}{
		{"mov %rcx,%rdx", "4889ca", set(Rcx), set(Rdx), 0, FlowNext},
		{"mov %ecx,%edx", "89ca", set(Rcx), set(Rdx), 0, FlowNext},
		{"mov %cx,%dx", "6689ca", set(Rcx), 0, set(Rdx), FlowNext},
		{"mov $1,%dh", "b601", 0, 0, set(Rdx), FlowNext},
		{"mov %r8,(%rax,%r9,2)", "4e890448", set(R8, Rax, R9), 0, 0, FlowNext},
		{"mov 8(%rsp),%r12", "4c8b642408", set(Rsp), set(R12), 0, FlowNext},
		{"movzbl (%rcx),%edx", "0fb611", set(Rcx), set(Rdx), 0, FlowNext},
		{"lea 8(%rax),%rdx", "488d5008", set(Rax), set(Rdx), 0, FlowNext},
		{"add %rsi,%rdi", "4801f7", set(Rsi, Rdi), set(Rdi), 0, FlowNext},
		{"xor %eax,%eax", "31c0", 0, set(Rax), 0, FlowNext},
		{"xor %ax,%ax", "6631c0", set(Rax), 0, set(Rax), FlowNext},
		{"xor %ecx,%eax", "31c8", set(Rax, Rcx), set(Rax), 0, FlowNext},
		{"sbb %eax,%eax", "19c0", set(Rax), set(Rax), 0, FlowNext},
		{"cmp %rax,%rdi", "4839c7", set(Rax, Rdi), 0, 0, FlowNext},
		{"test %al,%al", "84c0", set(Rax), 0, 0, FlowNext},
		{"cmove %rdx,%rax", "480f44c2", set(Rdx, Rax), set(Rax), 0, FlowNext},
		{"sete %dl", "0f94c2", 0, 0, set(Rdx), FlowNext},
		{"push %rbx", "53", set(Rbx), 0, 0, FlowNext},
		{"pop %r15", "415f", 0, set(R15), 0, FlowNext},
		{"leave", "c9", set(Rbp), set(Rbp, Rsp), 0, FlowNext},
		{"shl %cl,%rdx", "48d3e2", set(Rcx, Rdx), set(Rdx), 0, FlowNext},
		{"mul %rdi", "48f7e7", set(Rax, Rdi), set(Rax, Rdx), 0, FlowNext},
		{"mul %dil", "40f6e7", set(Rax, Rdi), 0, set(Rax, Rdx), FlowNext},
		{"div (%rcx)", "48f731", set(Rax, Rdx, Rcx), set(Rax, Rdx), 0, FlowNext},
		{"imul %rsi,%rdi", "480faffe", set(Rsi, Rdi), set(Rdi), 0, FlowNext},
		{"imul $8,%rsi,%rdi", "486bfe08", set(Rsi), set(Rdi), 0, FlowNext},
		{"cqo", "4899", set(Rax), set(Rdx), 0, FlowNext},
		{"cdqe", "4898", set(Rax), set(Rax), 0, FlowNext},
		{"xchg %rax,%rbx", "4893", set(Rax, Rbx), set(Rax, Rbx), 0, FlowNext},
		{"xchg %eax,(%rdi)", "8707", set(Rax, Rdi), set(Rax), 0, FlowNext},
		{"lock cmpxchg %edx,(%rdi)", "f00fb117", set(Rax, Rdx, Rdi), 0, set(Rax), FlowNext},
		{"lock xadd %eax,(%rdi)", "f00fc107", set(Rax, Rdi), set(Rax), 0, FlowNext},
		{"bsf %rcx,%rdx", "480fbcd1", set(Rcx, Rdx), set(Rdx), 0, FlowNext},
		{"rep movsb", "f3a4", set(Rcx, Rsi, Rdi, Rax), 0, set(Rcx, Rsi, Rdi, Rax), FlowNext},
		{"syscall", "0f05", set(Rax, Rdi, Rsi, Rdx, R10, R8, R9), set(Rax, Rcx, R11), 0, FlowNext},
		{"cpuid", "0fa2", set(Rax, Rcx), set(Rax, Rbx, Rcx, Rdx), 0, FlowNext},
		{"rdtsc", "0f31", 0, set(Rax, Rdx), 0, FlowNext},
		{"cvtsi2sd %rdi,%xmm0", "f2480f2ac7", set(Rdi), 0, 0, FlowNext},
		{"cvttsd2si %xmm0,%rdx", "f2480f2cd0", 0, set(Rdx), 0, FlowNext},
		{"vcvttsd2si (%rax),%rdx", "c4e1fb2c10", set(Rax), set(Rdx), 0, FlowNext},
		{"vcvttss2usi (%rax),%ebx", "62f17e087818", set(Rax), set(Rbx), 0, FlowNext},
		{"movq %xmm0,%rdx", "66480f7ec2", 0, set(Rdx), 0, FlowNext},
		{"movdqa (%rsi),%xmm1", "660f6f0e", set(Rsi), 0, 0, FlowNext},
		{"pcmpistri $8,(%rsi),%xmm0", "660f3a630608", set(Rsi), set(Rcx), 0, FlowNext},
		{"pcmpestri $8,(%rcx),%xmm0", "660f3a610108", set(Rax, Rdx, Rcx), set(Rcx), 0, FlowNext},
		{"pcmpestrm $8,(%rcx),%xmm0", "660f3a600108", set(Rax, Rdx, Rcx), 0, 0, FlowNext},
		{"pmovmskb %xmm0,%edx", "660fd7d0", 0, set(Rdx), 0, FlowNext},
		{"vpcmpeqb (%rdi),%ymm0,%ymm1", "c5fd740f", set(Rdi), 0, 0, FlowNext},
		{"rorx $3,%rax,%rcx", "c4e3fbf0c803", set(Rax), set(Rcx), 0, FlowNext},
		{"shlx %rax,%rcx,%rdx", "c4e2f9f7d1", set(Rax, Rcx), set(Rdx), 0, FlowNext},
		{"shrx %eax,%ecx,%edx", "c4e27bf7d1", set(Rax, Rcx), set(Rdx), 0, FlowNext},
		{"sarx %rax,(%rcx),%rdx", "c4e2faf711", set(Rax, Rcx), set(Rdx), 0, FlowNext},
		{"mulx %rax,%rcx,%rdi", "c4e2f3f6f8", set(Rax, Rdx), set(Rcx, Rdi), 0, FlowNext},
		{"pdep %rax,%rcx,%rdi", "c4e2f3f5f8", set(Rax, Rcx), set(Rdi), 0, FlowNext},
		{"pext (%rax),%rcx,%rdi", "c4e2f2f538", set(Rax, Rcx), set(Rdi), 0, FlowNext},
		{"bzhi %rax,%rcx,%rdi", "c4e2f8f5f9", set(Rax, Rcx), set(Rdi), 0, FlowNext},
		{"andn %rax,%rcx,%rdi", "c4e2f0f2f8", set(Rax, Rcx), set(Rdi), 0, FlowNext},
		{"bextr %rax,%rcx,%rdi", "c4e2f8f7f9", set(Rax, Rcx), set(Rdi), 0, FlowNext},
		{"blsr %r9,%r10", "c4c2a8f3c9", set(R9), set(R10), 0, FlowNext},
		{"blsi %eax,%ecx", "c4e270f3d8", set(Rax), set(Rcx), 0, FlowNext},
		{"blsmsk (%rax),%rcx", "c4e2f0f310", set(Rax), set(Rcx), 0, FlowNext},
		{"fildll (%rdi)", "df2f", set(Rdi), 0, 0, FlowNext},
		{"fnstsw %ax", "dfe0", 0, 0, set(Rax), FlowNext},
		{"nopw (%rax,%rax)", "660f1f840000000000", 0, 0, 0, FlowNext},
		{"endbr64", "f30f1efa", 0, 0, 0, FlowNext},
		{"vzeroupper", "c5f877", 0, 0, 0, FlowNext},
		{"vzeroall", "c5fc77", 0, 0, 0, FlowNext},
		{"vzeroupper, with three bytes of VEX", "c4e17877", 0, 0, 0, FlowNext},
		{"adcx %rdi,%r12", "664c0f38f6e7", set(Rdi, R12), set(R12), 0, FlowNext},
		{"adox 8(%rip),%ecx", "f30f38f60d08000000", set(Rcx), set(Rcx), 0, FlowNext},
		{"adox %r8d,%ecx", "f3410f38f6c8", set(R8, Rcx), set(Rcx), 0, FlowNext},
		{"xbegin", "c7f810000000", 0, 0, set(Rax), FlowCond},
		{"xend", "0f01d5", 0, 0, 0, FlowNext},
		{"xtest", "0f01d6", 0, 0, 0, FlowNext},
		{"xabort", "c6f8ff", 0, 0, set(Rax), FlowNext},
		{"vldmxcsr (%rsp)", "c5f8ae1424", set(Rsp), 0, 0, FlowNext},
		{"vstmxcsr (%rsp)", "c5f8ae1c24", set(Rsp), 0, 0, FlowNext},
		{"rdfsbase %rcx", "f3480faec1", 0, set(Rcx), 0, FlowNext},
		{"wrfsbase %rcx", "f3480faed1", set(Rcx), 0, 0, FlowNext},
		{"enter, with the number of int3", "c8030000", set(Rbp, Rsp), set(Rbp, Rsp), 0, FlowNext},
		{"enter", "c8100000", set(Rbp, Rsp), set(Rbp, Rsp), 0, FlowNext},
		{"jmp", "eb10", 0, 0, 0, FlowJump},
		{"je", "0f8410000000", 0, 0, 0, FlowCond},
		{"jrcxz", "e310", set(Rcx), 0, 0, FlowCond},
		{"loop", "e210", set(Rcx), 0, set(Rcx), FlowCond},
		{"call", "e810000000", 0, 0, 0, FlowCall},
		{"data16 data16 rex.W call, as before __tls_get_addr", "666648e810000000", 0, 0, 0, FlowCall},
		{"call *%rdx", "ffd2", set(Rdx), 0, 0, FlowCallInd},
		{"call *8(%rdx)", "ff5208", set(Rdx), 0, 0, FlowCallInd},
		{"jmp *(%rax,%rcx,8)", "ff24c8", set(Rax, Rcx), 0, 0, FlowIndirect},
		{"notrack jmp *%rax", "3effe0", set(Rax), 0, 0, FlowIndirect},
		{"repz ret", "f3c3", 0, 0, 0, FlowRet},
		{"ret $8", "c20800", 0, 0, 0, FlowRet},
		{"int3", "cc", 0, 0, 0, FlowNext},
		{"ud2", "0f0b", 0, 0, 0, FlowStop},
		{"hlt", "f4", 0, 0, 0, FlowStop},
	} {
		b := unhex(t, c.code)
		if i, ok := Decode(b, 0x1000); !ok || i.Len != len(b) {
			t.Errorf("%s, at the end: decoded %v, %d bytes", c.name, ok, i.Len)
		}
		i, ok := Decode(append(b[:len(b):len(b)], unhex(t, "48c7c3000460ffffd3")...), 0x1000)
		if !ok || i.Len != len(b) || i.Flow != c.flow {
			t.Errorf("%s: decoded %v, %d bytes, flow %d", c.name, ok, i.Len, i.Flow)
			continue
		}
		if i.Flow == FlowStop {
			continue // what it does does not matter
		}
		if !i.Known || i.Reads != c.reads || i.Writes != c.writes || i.Partial != c.partial {
			t.Errorf("%s: known %v, reads %#x, writes %#x, partial %#x; want %#x, %#x, %#x", c.name, i.Known, uint16(i.Reads), uint16(i.Writes), uint16(i.Partial), uint16(c.reads), uint16(c.writes), uint16(c.partial))
		}
	}
}

// TestDisplacement compares displacements of memory operands: those of 4 bytes are signed as well.
func TestDisplacement(t *testing.T) {
	for _, c := range []struct {
		name, code string
		want       int64
	}{
		{"mov %rdx,-0xa0(%rbp)", "48899560ffffff", -0xa0},
		{"mov %rdx,-8(%rbp)", "488955f8", -8},
		{"mov 0x110(%rsp),%rax", "488b842410010000", 0x110},
		{"mov -0x100000(,%rax,8),%rcx", "488b0cc50000f0ff", -0x100000},
		{"lea -0x100(%rip),%rax", "488d0500ffffff", -0x100},
	} {
		i, ok := Decode(unhex(t, c.code), 0x1000)
		if m, isMem := i.Mem(); !ok || !isMem || m.Disp != c.want {
			t.Errorf("%s: decoded %v, displacement %#x, want %#x", c.name, ok, m.Disp, c.want)
		}
	}
}

func TestUndecodable(t *testing.T) {
	for _, c := range []struct{ name, code string }{
		{"nothing", ""},
		{"prefixes alone", "f3"},
		{"prefixes without end", "66666666666666666666666666666690"},
		{"wrssq, which begins as adcx does", "480f38f608"},
		{"cut short", "48c7c00004"},
		{"not in 64-bit mode", "06"},
		{"rdsspq, of which x86asm knows the prefix", "f3480f1ec8"},
	} {
		if i, ok := Decode(unhex(t, c.code), 0); ok {
			t.Errorf("%s: got %v", c.name, i.Inst)
		}
	}
	if i, ok := Decode(unhex(t, "d7"), 0); !ok || i.Known {
		t.Errorf("xlat: decoded %v, known %v; want a decoded instruction without a rule", ok, i.Known)
	}
}
