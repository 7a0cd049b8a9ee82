// The functions of a random program that are written in C++: what they call throws, and the page is called before,
// beside and in what catches.
package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// ccKinds are as cKinds, in C++.
var ccKinds = []struct{ name, text string }{
	{"catch in a loop", `
SHAPE(@) {
	page_t f = PAGE_TIME;
	long caught = 0, t = f(0);
	for (long i = 0; i < 9; i++) {
		try { @_throw(i); caught += one(0); }
		catch (long n) { if (!recent(f(0))) return 1; caught += 10; }
	}
	return caught != 36 || !recent(t);
}`},
	{"catch alone", `
SHAPE(@) {
	long caught = 0;
	for (long i = 0; i < 9; i++) {
		try { @_throw(i); caught += one(0); }
		catch (long n) { if (recent(PAGE_TIME(0))) caught += 10; }
	}
	return caught != 36;
}`},
	{"destructor", `
struct @_at_end { long *to; ~@_at_end() { *to += recent(PAGE_TIME(0)); } };
static NOINLINE void @_inner(long n, long *to) { @_at_end e = { to }; @_throw(n); }
SHAPE(@) {
	long ended = 0, caught = 0;
	for (long i = 0; i < 6; i++) {
		try { @_inner(i, &ended); }
		catch (long n) { caught += n; }
	}
	return ended != 6 || caught != 1 + 4;
}`},
	{"thrown again", `
static NOINLINE long @_inner(long n) {
	page_t f = PAGE_TIME; HIDE(f);
	try { @_throw(n); } catch (long) { if (recent(f(0))) throw; }
	return f(0);
}
SHAPE(@) {
	try { @_inner($1 * 3 + 1); return 1; } catch (long n) { return n != $1 * 3 + 1 || !recent(@_inner(0)); }
}`},
}

// ccShape is SHAPE for C++: the checks' stacks are small and not aligned, so that the function gets one of its own.
const ccShape = `#undef SHAPE
#define SHAPE(f) \
	extern "C" int f(void); \
	extern "C" __attribute__((used)) int f##_whole(void); \
	__attribute__((used)) static long f##_stack[1 << 15] __asm__(#f "_stack"); \
	__asm__ (".text; .globl " #f "; .hidden " #f "; .type " #f ", %function; " #f ": push %rbp; mov %rsp, %rbp; " \
		"lea " #f "_stack+0x3fff0(%rip), %rsp; call " #f "_whole; leave; ret; .size " #f ", . - " #f); \
	__attribute__((section("vfix_shapes"), used)) static struct { int (*function)(void); const char *name; long class_, frame; } \
	shape_##f = { f, #f, SELF_C, 1024 }; \
	int f##_whole(void)
`

// writeCC returns a C++ source with one or two functions, and their kinds.
func writeCC(r *rand.Rand, name string) (text string, kinds []string) {
	var b strings.Builder
	b.WriteString(cHead + ccShape)
	for i := range 1 + r.IntN(2) {
		k := oneOf(r, ccKinds)
		id := fmt.Sprintf("%s_cc%d", name, i)
		thrower := "static NOINLINE void @_throw(long n) { HIDE(n); if (n % 3 == 1) throw n; }"
		body := strings.ReplaceAll(thrower+k.text, "@", id)
		b.WriteString(strings.ReplaceAll(body, "$1", fmt.Sprint(10+r.IntN(90))) + "\n")
		kinds = append(kinds, "c++:"+strings.ReplaceAll(k.name, " ", "-"))
	}
	return b.String(), kinds
}

// ccOptions picks the compiler of the C++ source, and how it compiles.
func ccOptions(r *rand.Rand, fixed bool) (compiler string, options []string) {
	pic := "-fpie"
	if fixed {
		pic = "-fno-pic"
	}
	if compiler = oneOf(r, []string{"g++", "clang++"}); !has(compiler) {
		compiler = "g++"
	}
	return compiler, []string{oneOf(r, []string{"-O0", "-O1", "-O2", "-O3", "-Os"}), pic, "-w", "-fno-stack-protector",
		"-fcf-protection=none", "-fvisibility=hidden"}
}
