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
// seconds since 1970, a status, a CPU.
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
static __attribute__((unused)) int recent(long t) { return t > 1000000000; }
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
var cKinds = []struct{ name, text string }{
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
	{"jump from elsewhere", `
extern long @_go(long *, long);
__asm__ (".text; .type @_one, %function; @_one: mov $0x1, %eax; ret; .size @_one, . - @_one; "
	".type @_go, %function; @_go: sub $8, %rsp; lea @_one(%rip), %rax; test %rsi, %rsi; jnz @_far; "
	"mov $0xffffffffff600400, %rax; @_call: call *%rax; add $8, %rsp; ret; .size @_go, . - @_go; "
	".type @_far, %function; @_far: nop; jmp @_call; .size @_far, . - @_far");
SHAPE(@) { long out = 0, r = @_go(&out, 0); return !recent(r) || r != out || @_go(&out, 1) != 1; }`},
	{"prefixed call", `
extern long @_now(long *);
__asm__ (".text; .type @_now, %function; @_now: sub $8, %rsp; mov $0xffffffffff600400, %rax; .byte $P; call *%rax; add $8, %rsp; ret; .size @_now, . - @_now");
SHAPE(@) { long out = 0, r = @_now(&out); return !recent(r) || r != out; }`},
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
	{"argument", `
static NOINLINE long @_call(page_t f, long *p) { return f(p); }
SHAPE(@) { page_t f = PAGE_TIME; HIDE(f); long out = 0, r = @_call(PAGE_TIME, &out); return r != out || !recent(f(0)); }`},
	{"red zone", `
extern long @_red(long);
__asm__ (".text; .type @_red, %function; @_red: mov %rdi, -40(%rsp); mov %rdi, -112(%rsp); xor %edi, %edi; mov $0xffffffffff600400, %rax; call *%rax; "
	"mov -40(%rsp), %rdx; add -112(%rsp), %rdx; cmp $0x3b9aca00, %rax; jb 1f; mov %rdx, %rax; 1: ret; .size @_red, . - @_red");
SHAPE(@) { return @_red($1) != 2 * $1; }`},
	{"flags", `
extern long @_flags(long *);
__asm__ (".text; .type @_flags, %function; @_flags: sub $8, %rsp; mov $0xffffffffff600400, %rax; stc; call *%rax; setc %cl; movzbl %cl, %eax; add $8, %rsp; ret; .size @_flags, . - @_flags");
SHAPE(@) { long out = 0; return @_flags(&out) != 1 || !recent(out); }`},
}

// prefixes of a call that change nothing: REX.W, notrack, bnd.
var prefixes = []string{"0x48", "0x3e", "0xf2"}

// cFlags are the ways of compiling them.
var cFlags = [][]string{{"-O0"}, {"-O1"}, {"-O2"}, {"-O3"}, {"-Os"}, {"-O2", "-fomit-frame-pointer"}, {"-O1", "-fno-omit-frame-pointer"}, {"-Og"},
	{"-O1", "-mindirect-branch=thunk"}, {"-O2", "-mindirect-branch=thunk-inline", "-mfunction-return=thunk"},
	{"-O2", "-fno-jump-tables"}, {"-O2", "-fno-asynchronous-unwind-tables"}}

// clangFlags are those for clang.
var clangFlags = [][]string{{"-O0"}, {"-O1"}, {"-O2"}, {"-O3"}, {"-Os"}, {"-Oz"}, {"-O2", "-mretpoline"}, {"-O2", "-fno-jump-tables"},
	{"-O2", "-fno-omit-frame-pointer"}}

// writeC returns a C source with one to three functions, and their kinds.
func writeC(r *rand.Rand, name string) (text string, kinds []string) {
	var b strings.Builder
	b.WriteString(cHead + cMemory)
	for i := range 1 + r.IntN(3) {
		k := oneOf(r, cKinds)
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
