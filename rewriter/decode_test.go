package rewriter

import "testing"

// TestEffects holds what the table says of instructions against the SDM.
func TestEffects(t *testing.T) {
	set := func(r ...int) regs { return regsOf(r...) }
	for _, c := range []struct {
		name, code             string
		reads, writes, partial regs
		flow                   flowKind
	}{
		{"mov %rcx,%rdx", "4889ca", set(rcx), set(rdx), 0, flowNext},
		{"mov %ecx,%edx", "89ca", set(rcx), set(rdx), 0, flowNext},
		{"mov %cx,%dx", "6689ca", set(rcx), 0, set(rdx), flowNext},
		{"mov $1,%dh", "b601", 0, 0, set(rdx), flowNext},
		{"mov %r8,(%rax,%r9,2)", "4e890448", set(r8, rax, r9), 0, 0, flowNext},
		{"mov 8(%rsp),%r12", "4c8b642408", set(rsp), set(r12), 0, flowNext},
		{"movzbl (%rcx),%edx", "0fb611", set(rcx), set(rdx), 0, flowNext},
		{"lea 8(%rax),%rdx", "488d5008", set(rax), set(rdx), 0, flowNext},
		{"add %rsi,%rdi", "4801f7", set(rsi, rdi), set(rdi), 0, flowNext},
		{"xor %eax,%eax", "31c0", 0, set(rax), 0, flowNext},
		{"xor %ax,%ax", "6631c0", set(rax), 0, set(rax), flowNext},
		{"xor %ecx,%eax", "31c8", set(rax, rcx), set(rax), 0, flowNext},
		{"sbb %eax,%eax", "19c0", set(rax), set(rax), 0, flowNext},
		{"cmp %rax,%rdi", "4839c7", set(rax, rdi), 0, 0, flowNext},
		{"test %al,%al", "84c0", set(rax), 0, 0, flowNext},
		{"cmove %rdx,%rax", "480f44c2", set(rdx, rax), set(rax), 0, flowNext},
		{"sete %dl", "0f94c2", 0, 0, set(rdx), flowNext},
		{"push %rbx", "53", set(rbx), 0, 0, flowNext},
		{"pop %r15", "415f", 0, set(r15), 0, flowNext},
		{"leave", "c9", set(rbp), set(rbp, rsp), 0, flowNext},
		{"shl %cl,%rdx", "48d3e2", set(rcx, rdx), set(rdx), 0, flowNext},
		{"mul %rdi", "48f7e7", set(rax, rdi), set(rax, rdx), 0, flowNext},
		{"mul %dil", "40f6e7", set(rax, rdi), 0, set(rax, rdx), flowNext},
		{"div (%rcx)", "48f731", set(rax, rdx, rcx), set(rax, rdx), 0, flowNext},
		{"imul %rsi,%rdi", "480faffe", set(rsi, rdi), set(rdi), 0, flowNext},
		{"imul $8,%rsi,%rdi", "486bfe08", set(rsi), set(rdi), 0, flowNext},
		{"cqo", "4899", set(rax), set(rdx), 0, flowNext},
		{"cdqe", "4898", set(rax), set(rax), 0, flowNext},
		{"xchg %rax,%rbx", "4893", set(rax, rbx), set(rax, rbx), 0, flowNext},
		{"xchg %eax,(%rdi)", "8707", set(rax, rdi), set(rax), 0, flowNext},
		{"lock cmpxchg %edx,(%rdi)", "f00fb117", set(rax, rdx, rdi), 0, set(rax), flowNext},
		{"lock xadd %eax,(%rdi)", "f00fc107", set(rax, rdi), set(rax), 0, flowNext},
		{"bsf %rcx,%rdx", "480fbcd1", set(rcx, rdx), set(rdx), 0, flowNext},
		{"rep movsb", "f3a4", set(rcx, rsi, rdi, rax), 0, set(rcx, rsi, rdi, rax), flowNext},
		{"syscall", "0f05", set(rax, rdi, rsi, rdx, r10, r8, r9), set(rax, rcx, r11), 0, flowNext},
		{"cpuid", "0fa2", set(rax, rcx), set(rax, rbx, rcx, rdx), 0, flowNext},
		{"rdtsc", "0f31", 0, set(rax, rdx), 0, flowNext},
		{"cvtsi2sd %rdi,%xmm0", "f2480f2ac7", set(rdi), 0, 0, flowNext},
		{"cvttsd2si %xmm0,%rdx", "f2480f2cd0", 0, set(rdx), 0, flowNext},
		{"movq %xmm0,%rdx", "66480f7ec2", 0, set(rdx), 0, flowNext},
		{"movdqa (%rsi),%xmm1", "660f6f0e", set(rsi), 0, 0, flowNext},
		{"pcmpistri $8,(%rsi),%xmm0", "660f3a630608", set(rsi), set(rcx), 0, flowNext},
		{"pmovmskb %xmm0,%edx", "660fd7d0", 0, set(rdx), 0, flowNext},
		{"vpcmpeqb (%rdi),%ymm0,%ymm1", "c5fd740f", set(rdi), 0, 0, flowNext},
		{"fildll (%rdi)", "df2f", set(rdi), 0, 0, flowNext},
		{"fnstsw %ax", "dfe0", 0, 0, set(rax), flowNext},
		{"nopw (%rax,%rax)", "660f1f840000000000", 0, 0, 0, flowNext},
		{"endbr64", "f30f1efa", 0, 0, 0, flowNext},
		{"jmp", "eb10", 0, 0, 0, flowJump},
		{"je", "0f8410000000", 0, 0, 0, flowCond},
		{"jrcxz", "e310", set(rcx), 0, 0, flowCond},
		{"loop", "e210", set(rcx), 0, set(rcx), flowCond},
		{"call", "e810000000", 0, 0, 0, flowCall},
		{"data16 data16 rex.W call, as before __tls_get_addr", "666648e810000000", 0, 0, 0, flowCall},
		{"call *%rdx", "ffd2", set(rdx), 0, 0, flowCallInd},
		{"call *8(%rdx)", "ff5208", set(rdx), 0, 0, flowCallInd},
		{"jmp *(%rax,%rcx,8)", "ff24c8", set(rax, rcx), 0, 0, flowIndirect},
		{"notrack jmp *%rax", "3effe0", set(rax), 0, 0, flowIndirect},
		{"repz ret", "f3c3", 0, 0, 0, flowRet},
		{"ret $8", "c20800", 0, 0, 0, flowRet},
		{"int3", "cc", 0, 0, 0, flowStop},
		{"ud2", "0f0b", 0, 0, 0, flowStop},
		{"hlt", "f4", 0, 0, 0, flowStop},
	} {
		b := asm(t, c.code)
		i, ok := decode(b, 0x1000)
		if !ok || i.Len != len(b) || i.flow != c.flow {
			t.Errorf("%s: decoded %v, %d bytes, flow %d", c.name, ok, i.Len, i.flow)
			continue
		}
		if i.flow == flowStop {
			continue // what it does does not matter
		}
		if !i.known || i.reads != c.reads || i.writes != c.writes || i.partial != c.partial {
			t.Errorf("%s: known %v, reads %#x, writes %#x, partial %#x; want %#x, %#x, %#x", c.name, i.known, uint16(i.reads), uint16(i.writes), uint16(i.partial), uint16(c.reads), uint16(c.writes), uint16(c.partial))
		}
	}
}

func TestUndecodable(t *testing.T) {
	for _, c := range []struct{ name, code string }{
		{"nothing", ""},
		{"prefixes alone", "f3"},
		{"prefixes without end", "66666666666666666666666666666690"},
		{"cut short", "48c7c00004"},
		{"not in 64-bit mode", "06"},
		{"rdsspq, of which x86asm knows the prefix", "f3480f1ec8"},
	} {
		if i, ok := decode(asm(t, c.code), 0); ok {
			t.Errorf("%s: got %v", c.name, i.Inst)
		}
	}
	if i, ok := decode(asm(t, "d7"), 0); !ok || i.known {
		t.Errorf("xlat: decoded %v, known %v; want a decoded instruction without a rule", ok, i.known)
	}
}
