// The functions of a random program that are written in C, for a compiler to make of them what
// it likes: each returns 0 if it finds everything in order, as the fixtures' SELF_C.
package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// cHead is what the C functions share. Their arguments are what the page returns:
// seconds since 1970, a status, a CPU. RARE says that what a profile shall not see happens. The value that decides a computed
// jump comes from a function of its own: clang 14 loses a value that an asm hands on right before the jump.
const cHead = `typedef long (*page_t)(long *);
#define PAGE_TIME ((page_t)0xffffffffff600400)
#define PAGE_GTOD ((long (*)(long *, long *))0xffffffffff600000)
#define SELF_C 5
#define SHAPE(f) \
	int f(void); \
	__attribute__((section("vfix_shapes"), used)) static struct { int (*function)(void); const char *name; long class, frame; } \
	shape_##f = { f, #f, SELF_C, 1024 }; \
	int f(void)
#define NOINLINE __attribute__((noinline, noclone))
#define HIDE(x) __asm__ volatile ("" : "+r"(x))
static NOINLINE __attribute__((unused)) long one(long *p) { if (p) *p = 1; return 1; }
static NOINLINE __attribute__((unused)) long two(long *p) { if (p) *p = 2; return 2; }
static NOINLINE __attribute__((unused)) long three(long *p) { if (p) *p = 3; return 3; }
static NOINLINE __attribute__((unused)) long hidden(long n) { HIDE(n); return n; }
static __attribute__((unused)) int recent(long t) { return t > 1000000000; }
#ifndef RARE
#define RARE 1
#endif
`

// cMemory is what compilers call in any program.
const cMemory = `__attribute__((weak, used)) void *memset(void *to, int c, unsigned long n) { for (volatile char *p = to; n; n--) *p++ = c; return to; }
__attribute__((weak, used)) void *memcpy(void *to, const void *from, unsigned long n)
{
	const char *f = from;
	for (volatile char *p = to; n; n--) *p++ = *f++;
	return to;
}
`

// cKinds are the functions; @ stands for the function's name, and $N for random small numbers.
var cKinds = []struct{ name, text string }{ // from openKinds on, vfix may have to leave it
	{"switch", `
SHAPE(@) {
	for (long k = 0; k < 9; k++) {
		long n = k; HIDE(n);
		page_t f = one;
		switch (n) {
		case 0: f = two; break;
		case 1: f = PAGE_TIME; break;
		case 2: f = three; break;
		case 3: f = one; break;
		case 4: f = PAGE_TIME; break;
		case 5: f = two; break;
		case 6: f = three; break;
		}
		long out = 0, r = f(&out);
		if (out != r) return 1;
		if (recent(r) != (k == 1 || k == 4)) return 2;
	}
	return 0;
}`},
	{"switch that calls", `
SHAPE(@) {
	long sum = 0;
	for (long k = 0; k < 8; k++) {
		long n = k; HIDE(n);
		switch (n) {
		case 0: sum += one(0); break;
		case 1: sum += recent(PAGE_TIME(0)); break;
		case 2: sum += two(0); break;
		case 3: sum += three(0); break;
		case 4: sum += recent(PAGE_TIME(0)) + 4; break;
		case 5: sum *= 2; break;
		case 6: sum += $1; break;
		}
	}
	return sum != (one(0) + 1 + 2 + 3 + 5) * 2 + $1;
}`},
	{"computed goto", `
SHAPE(@) {
	static const void *const to[] = { &&a, &&b, &&c, &&d };
	page_t f = one;
	for (long k = 0; k < 4; k++) {
		long n = hidden(k);
		goto *to[n];
a:		f = two; goto go;
b:		f = PAGE_TIME; goto go;
c:		f = three; goto go;
d:		f = PAGE_TIME;
go:		;
		if (recent(f(0)) != (k & 1)) return 1;
	}
	return 0;
}`},
	{"computed goto by offsets", `
SHAPE(@) {
	static const int to[] = { &&a - &&a, &&b - &&a, &&c - &&a, &&go - &&a };
	page_t f = one;
	for (long k = 0; k < 4; k++) {
		long n = hidden(k);
		goto *(&&a + to[n]);
a:		f = two; goto go;
b:		f = PAGE_TIME; goto go;
c:		f = three; goto go;
go:		;
		if (recent(f(0)) != (k == 1)) return 1;
	}
	return 0;
}`},
	{"ipa-ra", `
static NOINLINE long @_now(long *p) {
	long r;
	__asm__ volatile ("mov $0xffffffffff600400, %%rax\n\tcall *%%rax" : "=&a"(r) : "D"(p) : "memory", "cc");
	return r;
}
SHAPE(@) {
	long a = $1, b = $2, c = $3, d = 5, e = 7, g = 11, sum = 0;
	HIDE(a); HIDE(b); HIDE(c); HIDE(d); HIDE(e); HIDE(g);
	for (long i = 0; i < 6; i++) {
		long out = 0, r = @_now(&out);
		if (!recent(r) || r != out) return 1;
		sum += a + b * 2 + c * 3 + d * 4 + e * 5 + g * 6 + i;
	}
	return sum != 6 * (a + b * 2 + c * 3 + d * 4 + e * 5 + g * 6) + 15;
}`},
	{"ipa-ra by a tail jump", `
static NOINLINE long @_now(long *p);
__asm__ (".text\n.type @_now, %function\n@_now:\n\tmov $0xffffffffff600400, %rax\n\tjmp *%rax\n.size @_now, . - @_now\n");
SHAPE(@) {
	long r, a = $1;
	__asm__ volatile ("mov $77, %%rcx\n\tmov $78, %%r11\n\tmov $79, %%r8\n\tmov $80, %%rdx\n\tcall @_now\n\t"
		"sub $77, %%rcx\n\tsub $78, %%r11\n\tsub $79, %%r8\n\tsub $80, %%rdx\n\tor %%r11, %%rcx\n\tor %%r8, %%rcx\n\tor %%rdx, %%rcx\n\tmov %%rcx, %0"
		: "=&r"(a), "=&a"(r) : "D"(0) : "rcx", "rdx", "r8", "r11", "memory", "cc");
	return a != 0 || !recent(r);
}`},
	{"hot and cold, hoisted", `
static __attribute__((noinline, cold)) long @_rare(long n) { HIDE(n); return n * 2; }
static NOINLINE long @_run(long n, long limit) {
	page_t f = PAGE_TIME; HIDE(f);
	long sum = recent(f(0));
	for (long i = 0; i < n; i++) {
		long k = i; HIDE(k);
		if (__builtin_expect(k == limit, 0))
			sum += @_rare(k) + recent(f(0));
		else
			sum += one(0);
	}
	return sum + recent(f(0));
}
SHAPE(@) { return @_run($1, 3) != $1 - 1 + 6 + 3 || @_run($1, -1) != $1 + 2; }`},
	{"rare", `
static long volatile @_rare = RARE;
static NOINLINE long @_run(long n) {
	page_t f = PAGE_TIME; HIDE(f);
	long sum = 0;
	for (long i = 0; i < n; i++) {
		if (@_rare) {
			if (!recent(f(0))) return -1;
			sum += 3;
		}
		sum += one(0);
	}
	return sum;
}
SHAPE(@) { long n = $1; HIDE(n); return @_run(n) != n * (@_rare ? 4 : 1); }`},
	{"rare, with kept values", `
static long volatile @_rare = RARE;
static NOINLINE long @_run(long a, long b, long c, long n) {
	long sum = 0, out = 0;
	for (long i = 0; i < n; i++) {
		sum += one(0) + a * i;
		if (@_rare && i == 1) {
			if (!recent(PAGE_TIME(&out)) || !recent(out)) return -1;
			sum += b;
		}
		sum ^= c;
	}
	return sum;
}
static NOINLINE long @_want(long a, long b, long c, long n) {
	long sum = 0;
	for (long i = 0; i < n; i++) {
		sum += 1 + a * i;
		if (@_rare && i == 1) sum += b;
		sum ^= c;
	}
	return sum;
}
SHAPE(@) { long n = $1; HIDE(n); return @_run(n, 5, $2, $3) != @_want(n, 5, $2, $3); }`},
	{"several entries", `
extern long @_first(long *), @_second(long *), @_third(long *);
__asm__ (".text; .type @_first, %function; @_first: push %rbx; mov $0xffffffffff600400, %rbx; jmp 1f; .size @_first, . - @_first; "
	".type @_second, %function; @_second: push %rbx; lea @_own(%rip), %rbx; jmp 1f; .size @_second, . - @_second; "
	".type @_third, %function; @_third: push %rbx; mov $0xffffffffff600400, %rbx; call *%rbx; 1: call *%rbx; pop %rbx; ret; .size @_third, . - @_third; "
	".type @_own, %function; @_own: mov $0x7, %eax; ret; .size @_own, . - @_own");
SHAPE(@) { return !recent(@_first(0)) || @_second(0) != 7 || !recent(@_third(0)); }`},
	{"local pointer", `
SHAPE(@) {
	page_t f = PAGE_TIME;
	long out = 0;
	long r = f(&out);
	return !recent(r) || out != r;
}`},
	{"local pointer, volatile", `
SHAPE(@) {
	page_t volatile f = PAGE_TIME;
	return !recent(f(0)) || !recent(f(0));
}`},
	{"compared", `
static NOINLINE int @_is(unsigned long a) { return a == 0xffffffffff600400ul; }
SHAPE(@) { return !@_is(0xffffffffff600400ul) || @_is($1) || !recent(PAGE_TIME(0)); }`},
	{"base of the page", `
SHAPE(@) {
	unsigned long base = 0xffffffffff600000ul; HIDE(base);
	unsigned long volatile kept = 0xffffffffff600000ul;
	long tv[2] = { 0, 0 };
	return kept + 0x400 != base + 0x400 || PAGE_GTOD(tv, 0) != 0 || !recent(tv[0]) || base != 0xffffffffff600000ul;
}`},
	{"loop", `
SHAPE(@) {
	long last = PAGE_TIME(0);
	for (long i = 0; i < $1 + 2; i++) {
		long t = PAGE_TIME(0);
		if (t < last) return 1;
		last = t;
	}
	return 0;
}`},
	{"table of bytes", landing(`lea @_tab(%rip), %rcx; movzbl (%rcx,%rsi), %edx; lea @_base(%rip), %rcx; add %rcx, %rdx; jmp *%rdx`,
		`.section .rodata; @_tab: .byte 0, @_call - @_base; .text`)},
	{"table of addresses", landing(`lea @_tab(%rip), %rcx; jmp *(%rcx,%rsi,8)`,
		`.section .data.rel.ro, "aw"; .balign 8; @_tab: .quad @_base, @_call; .text`)},
	{"address in data", landing(`test %rsi, %rsi; jz @_base; mov @_to(%rip), %rcx; jmp *%rcx`,
		`.section .data.rel.ro, "aw"; .balign 8; @_to: .quad @_call; .text`)},
	{"jump from elsewhere", landing(`test %rsi, %rsi; jnz @_far`,
		`.type @_far, %function; @_far: nop; jmp @_call; .size @_far, . - @_far`)},
	{"jrcxz", landing(`xor %ecx, %ecx; test %rsi, %rsi; sete %cl; jrcxz @_call`, ``)},
	{"push and ret to the middle", landing(`test %rsi, %rsi; jz @_base; lea @_call(%rip), %rcx; push %rcx; ret`, ``)},
	{"another return address", `
extern long @_now(long *);
__asm__ (".text; .type @_now, %function; @_now: lea 1f(%rip), %rcx; push %rcx; mov $0xffffffffff600400, %rax; jmp *%rax; 1: inc %rax; ret; .size @_now, . - @_now");
SHAPE(@) { long out = 0, r = @_now(&out); return !recent(r) || r != out + 1; }`},
	{"prefixed call", `
extern long @_now(long *);
__asm__ (".text; .type @_now, %function; @_now: sub $8, %rsp; mov $0xffffffffff600400, %rax; .byte $P; call *%rax; add $8, %rsp; ret; .size @_now, . - @_now");
SHAPE(@) { long out = 0, r = @_now(&out); return !recent(r) || r != out; }`},
	{"one of two functions", `
extern long @_one_of(long *, long *, long);
__asm__ (".text; .type @_one_of, %function; @_one_of: sub $8, %rsp; mov $0xffffffffff600400, %rax; mov $0xffffffffff600000, %r8; test %rdx, %rdx; "
	"cmovne %r8, %rax; call *%rax; add $8, %rsp; ret; .size @_one_of, . - @_one_of");
SHAPE(@) {
	long tv[2] = { 0, 0 }, out = 0, r = @_one_of(&out, 0, 0);
	return !recent(r) || r != out || @_one_of(tv, 0, 1) != 0 || !recent(tv[0]);
}`},
	{"vector register", `
extern long @_kept(long *, long);
__asm__ (".text; .type @_kept, %function; @_kept: sub $8, %rsp; movq %rsi, %xmm9; mov $0xffffffffff600400, %rax; call *%rax; movq %xmm9, %rax; add $8, %rsp; ret; .size @_kept, . - @_kept");
SHAPE(@) { long out = 0; return @_kept(&out, $1) != $1 || !recent(out); }`},
	{"shared epilogue", `
extern long @_a(long *), @_b(long *);
__asm__ (".text; .type @_a, %function; @_a: sub $8, %rsp; mov $0xffffffffff600400, %rax; call *%rax; @_tail: add $8, %rsp; ret; .size @_a, . - @_a; "
	".type @_b, %function; @_b: sub $8, %rsp; call @_a; neg %rax; jmp @_tail; .size @_b, . - @_b");
SHAPE(@) { long out = 0, r = @_a(&out), q = @_b(&out); return !recent(r) || -q != out; }`},
	{"cold part", `
static __attribute__((noinline, cold)) int @_bad(long n) { HIDE(n); return n > 0; }
static NOINLINE long @_get(long n, long *p) {
	page_t f = one;
	if (__builtin_expect(n > 5, 0)) {
		if (@_bad(n - 100)) return 0;
		f = PAGE_TIME;
	}
	return f(p);
}
SHAPE(@) { long n = $1, out = 0; HIDE(n); return @_get(n - n, &out) != 1 || !recent(@_get(n - n + 7, &out)) || !recent(out); }`},
	{"pointer in a struct", `
struct @_s { long a; page_t f; long b; };
static NOINLINE int @_go(struct @_s *s) { return !recent(s->f(0)) || s->a + s->b != $1 + $2; }
SHAPE(@) { struct @_s s = { $1, PAGE_TIME, $2 }; return @_go(&s); }`},
	{"pointer in a variable", `
static page_t @_f;
static NOINLINE void @_set(int on) { @_f = on ? PAGE_TIME : one; }
SHAPE(@) { int on = 1; HIDE(on); @_set(on); return !recent(@_f(0)); }`},
	{"pointer in data", `
static page_t @_f = PAGE_TIME;
SHAPE(@) { page_t *p = &@_f; HIDE(p); return !recent((*p)(0)); }`},
	{"table of pointers", `
SHAPE(@) {
	page_t f[4] = { one, PAGE_TIME, two, PAGE_TIME };
	for (long k = 0; k < 4; k++) {
		long n = k; HIDE(n);
		if (recent(f[n](0)) != (k & 1)) return 1;
	}
	return 0;
}`},
	{"argument", `
static NOINLINE long @_call(page_t f, long *p) { return f(p); }
SHAPE(@) { page_t f = PAGE_TIME; HIDE(f); long out = 0, r = @_call(PAGE_TIME, &out); return r != out || !recent(f(0)); }`},
	{"result", `
static NOINLINE page_t @_get(int n) { return n == $1 ? PAGE_TIME : n ? one : two; }
SHAPE(@) { int n = $1; HIDE(n); return !recent(@_get(n)(0)); }`},
	{"red zone", `
extern long @_red(long);
__asm__ (".text; .type @_red, %function; @_red: mov %rdi, -40(%rsp); mov %rdi, -112(%rsp); xor %edi, %edi; mov $0xffffffffff600400, %rax; call *%rax; "
	"mov -40(%rsp), %rdx; add -112(%rsp), %rdx; cmp $0x3b9aca00, %rax; jb 1f; mov %rdx, %rax; 1: ret; .size @_red, . - @_red");
SHAPE(@) { return @_red($1) != 2 * $1; }`},
	{"flags", `
extern long @_flags(long *);
__asm__ (".text; .type @_flags, %function; @_flags: sub $8, %rsp; mov $0xffffffffff600400, %rax; stc; call *%rax; setc %cl; movzbl %cl, %eax; add $8, %rsp; ret; .size @_flags, . - @_flags");
SHAPE(@) { long out = 0; return @_flags(&out) != 1 || !recent(out); }`},
	{"in r11", `
extern long @_now(long *);
__asm__ (".text; .type @_get, %function; @_get: mov $0xffffffffff600400, %r11; ret; .size @_get, . - @_get; "
	".type @_now, %function; @_now: sub $8, %rsp; call @_get; call *%r11; add $8, %rsp; ret; .size @_now, . - @_now");
SHAPE(@) { long out = 0, r = @_now(&out); return !recent(r) || r != out; }`},
	{"push and ret", `
extern long @_now(long *);
__asm__ (".text; .type @_now, %function; @_now: push $0xffffffffff600400; ret; .size @_now, . - @_now");
SHAPE(@) { long out = 0, r = @_now(&out); return !recent(r) || r != out; }`},
	{"push and pop", `
extern long @_now(long *);
__asm__ (".text; .type @_now, %function; @_now: sub $8, %rsp; push $0xffffffffff600400; pop %rcx; call *%rcx; add $8, %rsp; ret; .size @_now, . - @_now");
SHAPE(@) { long out = 0, r = @_now(&out); return !recent(r) || r != out; }`},
	{"word in rodata", `
extern long @_now(long *);
__asm__ (".text; .type @_now, %function; @_now: sub $8, %rsp; call *@_word(%rip); add $8, %rsp; ret; .size @_now, . - @_now; "
	".section .rodata; .balign 8; @_word: .quad 0xffffffffff600400; .text");
SHAPE(@) { long out = 0, r = @_now(&out); return !recent(r) || r != out; }`},
}

// landing is a function that goes on with a call of the page, or in the middle, with the call
// alone and another function's address; enter is how it gets to either, data what it needs.
func landing(enter, data string) string {
	const text = `
extern long @_go(long *, long);
__asm__ (".text; .type @_one, %function; @_one: mov $0x1, %eax; ret; .size @_one, . - @_one; "
	".type @_go, %function; @_go: sub $8, %rsp; lea @_one(%rip), %rax; ENTER; @_base: mov $0xffffffffff600400, %rax; @_call: call *%rax; add $8, %rsp; ret; .size @_go, . - @_go; DATA");
SHAPE(@) { long out = 0, r = @_go(&out, 0); return !recent(r) || r != out || @_go(&out, 1) != 1; }`
	return strings.NewReplacer("ENTER", enter, "DATA", strings.ReplaceAll(data, `"`, `\"`)).Replace(text)
}

// prefixes of a call that change nothing: REX.W, notrack, bnd.
var prefixes = []string{"0x48", "0x3e", "0xf2"}

// openKinds is the index in cKinds of the first whose calls cannot be proved: they are findings.
const openKinds = 27

// cFlags are the ways of compiling them.
var cFlags = [][]string{{"-O0"}, {"-O1"}, {"-O2"}, {"-O3"}, {"-Os"}, {"-O2", "-fomit-frame-pointer"}, {"-O1", "-fno-omit-frame-pointer"}, {"-Og"},
	{"-O1", "-mindirect-branch=thunk"}, {"-O2", "-mindirect-branch=thunk-inline", "-mfunction-return=thunk"},
	{"-O2", "-fno-jump-tables"}, {"-O2", "-fno-asynchronous-unwind-tables"}, {"-O2", "-freorder-blocks-and-partition"}}

// clangFlags are those for clang.
var clangFlags = [][]string{{"-O0"}, {"-O1"}, {"-O2"}, {"-O3"}, {"-Os"}, {"-Oz"}, {"-O2", "-mretpoline"}, {"-O2", "-fno-jump-tables"},
	{"-O2", "-fno-omit-frame-pointer"}}

// writeC returns a C source with one to three functions, and their kinds.
func writeC(r *rand.Rand, name string) (text string, kinds []string) {
	var b strings.Builder
	b.WriteString(cHead + cMemory)
	from := cKinds
	if r.IntN(3) > 0 {
		from = cKinds[:openKinds]
	}
	for i := range 1 + r.IntN(3) {
		k := oneOf(r, from)
		body := strings.ReplaceAll(k.text, "@", fmt.Sprintf("%s_c%d", name, i))
		body = strings.ReplaceAll(body, "$P", oneOf(r, prefixes))
		for n := range 3 {
			body = strings.ReplaceAll(body, fmt.Sprintf("$%d", n+1), fmt.Sprint(10+r.IntN(90)))
		}
		b.WriteString(body + "\n")
		kinds = append(kinds, "c:"+strings.ReplaceAll(k.name, " ", "-"))
	}
	return b.String(), kinds
}

// cOptions picks the compiler of the C source, and how it compiles: for a library, or for a program at any or at
// a fixed address.
func cOptions(r *rand.Rand, library, fixed bool) (compiler string, options []string) {
	pic := []string{"-fPIC"}
	if !library {
		pic = append(pic, "-fpie")
	}
	if fixed {
		pic = append(pic, "-fno-pic")
	}
	compiler, flags, own := "gcc", cFlags, "-Wa,-mx86-used-note=no"
	if r.IntN(3) == 0 && has("clang") {
		compiler, flags, own = "clang", clangFlags, "-fno-addrsig"
	}
	return compiler, slices.Concat(oneOf(r, flags), []string{oneOf(r, pic), "-w", "-ffreestanding", "-fno-stack-protector", "-mno-red-zone", "-mgeneral-regs-only",
		"-fcf-protection=none", "-fvisibility=hidden", own})
}
