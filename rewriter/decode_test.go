package rewriter

import (
	"encoding/hex"
	"testing"

	"vfix.dev/vfix/rewriter/x86"
)

func unhex(t *testing.T, code string) []byte {
	t.Helper()
	b, err := hex.DecodeString(code)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEffects holds what the table says of instructions against the SDM.
func TestEffects(t *testing.T) {
	set := func(r ...int) x86.Regs { return x86.RegsOf(r...) }
	for _, c := range []struct {
		name, code             string
		reads, writes, partial x86.Regs
		flow                   x86.FlowKind
	}{
		{"mov %rcx,%rdx", "4889ca", set(x86.Rcx), set(x86.Rdx), 0, x86.FlowNext},
		{"mov %ecx,%edx", "89ca", set(x86.Rcx), set(x86.Rdx), 0, x86.FlowNext},
		{"mov %cx,%dx", "6689ca", set(x86.Rcx), 0, set(x86.Rdx), x86.FlowNext},
		{"mov $1,%dh", "b601", 0, 0, set(x86.Rdx), x86.FlowNext},
		{"mov %r8,(%rax,%r9,2)", "4e890448", set(x86.R8, x86.Rax, x86.R9), 0, 0, x86.FlowNext},
		{"mov 8(%rsp),%r12", "4c8b642408", set(x86.Rsp), set(x86.R12), 0, x86.FlowNext},
		{"movzbl (%rcx),%edx", "0fb611", set(x86.Rcx), set(x86.Rdx), 0, x86.FlowNext},
		{"lea 8(%rax),%rdx", "488d5008", set(x86.Rax), set(x86.Rdx), 0, x86.FlowNext},
		{"add %rsi,%rdi", "4801f7", set(x86.Rsi, x86.Rdi), set(x86.Rdi), 0, x86.FlowNext},
		{"xor %eax,%eax", "31c0", 0, set(x86.Rax), 0, x86.FlowNext},
		{"xor %ax,%ax", "6631c0", set(x86.Rax), 0, set(x86.Rax), x86.FlowNext},
		{"xor %ecx,%eax", "31c8", set(x86.Rax, x86.Rcx), set(x86.Rax), 0, x86.FlowNext},
		{"sbb %eax,%eax", "19c0", set(x86.Rax), set(x86.Rax), 0, x86.FlowNext},
		{"cmp %rax,%rdi", "4839c7", set(x86.Rax, x86.Rdi), 0, 0, x86.FlowNext},
		{"test %al,%al", "84c0", set(x86.Rax), 0, 0, x86.FlowNext},
		{"cmove %rdx,%rax", "480f44c2", set(x86.Rdx, x86.Rax), set(x86.Rax), 0, x86.FlowNext},
		{"sete %dl", "0f94c2", 0, 0, set(x86.Rdx), x86.FlowNext},
		{"push %rbx", "53", set(x86.Rbx), 0, 0, x86.FlowNext},
		{"pop %r15", "415f", 0, set(x86.R15), 0, x86.FlowNext},
		{"leave", "c9", set(x86.Rbp), set(x86.Rbp, x86.Rsp), 0, x86.FlowNext},
		{"shl %cl,%rdx", "48d3e2", set(x86.Rcx, x86.Rdx), set(x86.Rdx), 0, x86.FlowNext},
		{"mul %rdi", "48f7e7", set(x86.Rax, x86.Rdi), set(x86.Rax, x86.Rdx), 0, x86.FlowNext},
		{"mul %dil", "40f6e7", set(x86.Rax, x86.Rdi), 0, set(x86.Rax, x86.Rdx), x86.FlowNext},
		{"div (%rcx)", "48f731", set(x86.Rax, x86.Rdx, x86.Rcx), set(x86.Rax, x86.Rdx), 0, x86.FlowNext},
		{"imul %rsi,%rdi", "480faffe", set(x86.Rsi, x86.Rdi), set(x86.Rdi), 0, x86.FlowNext},
		{"imul $8,%rsi,%rdi", "486bfe08", set(x86.Rsi), set(x86.Rdi), 0, x86.FlowNext},
		{"cqo", "4899", set(x86.Rax), set(x86.Rdx), 0, x86.FlowNext},
		{"cdqe", "4898", set(x86.Rax), set(x86.Rax), 0, x86.FlowNext},
		{"xchg %rax,%rbx", "4893", set(x86.Rax, x86.Rbx), set(x86.Rax, x86.Rbx), 0, x86.FlowNext},
		{"xchg %eax,(%rdi)", "8707", set(x86.Rax, x86.Rdi), set(x86.Rax), 0, x86.FlowNext},
		{"lock cmpxchg %edx,(%rdi)", "f00fb117", set(x86.Rax, x86.Rdx, x86.Rdi), 0, set(x86.Rax), x86.FlowNext},
		{"lock xadd %eax,(%rdi)", "f00fc107", set(x86.Rax, x86.Rdi), set(x86.Rax), 0, x86.FlowNext},
		{"bsf %rcx,%rdx", "480fbcd1", set(x86.Rcx, x86.Rdx), set(x86.Rdx), 0, x86.FlowNext},
		{"rep movsb", "f3a4", set(x86.Rcx, x86.Rsi, x86.Rdi, x86.Rax), 0, set(x86.Rcx, x86.Rsi, x86.Rdi, x86.Rax), x86.FlowNext},
		{"syscall", "0f05", set(x86.Rax, x86.Rdi, x86.Rsi, x86.Rdx, x86.R10, x86.R8, x86.R9), set(x86.Rax, x86.Rcx, x86.R11), 0, x86.FlowNext},
		{"cpuid", "0fa2", set(x86.Rax, x86.Rcx), set(x86.Rax, x86.Rbx, x86.Rcx, x86.Rdx), 0, x86.FlowNext},
		{"rdtsc", "0f31", 0, set(x86.Rax, x86.Rdx), 0, x86.FlowNext},
		{"cvtsi2sd %rdi,%xmm0", "f2480f2ac7", set(x86.Rdi), 0, 0, x86.FlowNext},
		{"cvttsd2si %xmm0,%rdx", "f2480f2cd0", 0, set(x86.Rdx), 0, x86.FlowNext},
		{"movq %xmm0,%rdx", "66480f7ec2", 0, set(x86.Rdx), 0, x86.FlowNext},
		{"movdqa (%rsi),%xmm1", "660f6f0e", set(x86.Rsi), 0, 0, x86.FlowNext},
		{"pcmpistri $8,(%rsi),%xmm0", "660f3a630608", set(x86.Rsi), set(x86.Rcx), 0, x86.FlowNext},
		{"pmovmskb %xmm0,%edx", "660fd7d0", 0, set(x86.Rdx), 0, x86.FlowNext},
		{"vpcmpeqb (%rdi),%ymm0,%ymm1", "c5fd740f", set(x86.Rdi), 0, 0, x86.FlowNext},
		{"fildll (%rdi)", "df2f", set(x86.Rdi), 0, 0, x86.FlowNext},
		{"fnstsw %ax", "dfe0", 0, 0, set(x86.Rax), x86.FlowNext},
		{"nopw (%rax,%rax)", "660f1f840000000000", 0, 0, 0, x86.FlowNext},
		{"endbr64", "f30f1efa", 0, 0, 0, x86.FlowNext},
		{"jmp", "eb10", 0, 0, 0, x86.FlowJump},
		{"je", "0f8410000000", 0, 0, 0, x86.FlowCond},
		{"jrcxz", "e310", set(x86.Rcx), 0, 0, x86.FlowCond},
		{"loop", "e210", set(x86.Rcx), 0, set(x86.Rcx), x86.FlowCond},
		{"call", "e810000000", 0, 0, 0, x86.FlowCall},
		{"data16 data16 rex.W call, as before __tls_get_addr", "666648e810000000", 0, 0, 0, x86.FlowCall},
		{"call *%rdx", "ffd2", set(x86.Rdx), 0, 0, x86.FlowCallInd},
		{"call *8(%rdx)", "ff5208", set(x86.Rdx), 0, 0, x86.FlowCallInd},
		{"jmp *(%rax,%rcx,8)", "ff24c8", set(x86.Rax, x86.Rcx), 0, 0, x86.FlowIndirect},
		{"notrack jmp *%rax", "3effe0", set(x86.Rax), 0, 0, x86.FlowIndirect},
		{"repz ret", "f3c3", 0, 0, 0, x86.FlowRet},
		{"ret $8", "c20800", 0, 0, 0, x86.FlowRet},
		{"int3", "cc", 0, 0, 0, x86.FlowStop},
		{"ud2", "0f0b", 0, 0, 0, x86.FlowStop},
		{"hlt", "f4", 0, 0, 0, x86.FlowStop},
	} {
		b := unhex(t, c.code)
		i, ok := x86.Decode(b, 0x1000)
		if !ok || i.Len != len(b) || i.Flow != c.flow {
			t.Errorf("%s: decoded %v, %d bytes, flow %d", c.name, ok, i.Len, i.Flow)
			continue
		}
		if i.Flow == x86.FlowStop {
			continue // what it does does not matter
		}
		if !i.Known || i.Reads != c.reads || i.Writes != c.writes || i.Partial != c.partial {
			t.Errorf("%s: known %v, reads %#x, writes %#x, partial %#x; want %#x, %#x, %#x", c.name, i.Known, uint16(i.Reads), uint16(i.Writes), uint16(i.Partial), uint16(c.reads), uint16(c.writes), uint16(c.partial))
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
		if i, ok := x86.Decode(unhex(t, c.code), 0); ok {
			t.Errorf("%s: got %v", c.name, i.Inst)
		}
	}
	if i, ok := x86.Decode(unhex(t, "d7"), 0); !ok || i.Known {
		t.Errorf("xlat: decoded %v, known %v; want a decoded instruction without a rule", ok, i.Known)
	}
}
