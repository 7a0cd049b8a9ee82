// The functions of a random program, as assembly for the macros of tests/fixtures/check/site.h.
package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// function is one of the page: its class in site.h, its macro's name, the registers of its arguments.
type function struct {
	class, address string
	arguments      []string
}

var functions = []function{
	{"TIME_C", "TIME", []string{"rdi"}},
	{"GETTIMEOFDAY_C", "GETTIMEOFDAY", []string{"rdi", "rsi"}},
	{"GETCPU_C", "GETCPU", []string{"rdi", "rsi", "rdx"}},
}

var (
	callerSaved = []string{"rcx", "rdx", "rsi", "r8", "r9", "r10", "r11"}
	calleeSaved = []string{"rbx", "rbp", "r12", "r13", "r14", "r15"}
	// The kernel's emulation may change these, as system calls do.
	clobbered = []string{"rax", "rcx", "r11"}
)

// shape is one function under construction.
type shape struct {
	strings.Builder
	*rand.Rand
	function
	reg   string   // that holds the page's address
	live  []string // registers with a value that must be there after the call
	saved []string // callee-saved ones that are used, in the order in which they are pushed
	room  int      // bytes of the frame below them
}

// writeShape returns the text of one function, and what kind it is.
func writeShape(r *rand.Rand, name string) (text, kind string) {
	s := &shape{Rand: r, function: oneOf(r, functions)}
	kinds := []struct {
		name string
		body func(*shape)
	}{
		{"adjacent", (*shape).adjacent},
		{"stub", (*shape).adjacent},
		{"tail", (*shape).tail},
		{"hoisted", (*shape).hoisted},
		{"apart", (*shape).apart},
		{"shared", (*shape).shared},
		{"twice", (*shape).twice},
	}
	k := oneOf(r, kinds)
	switch k.name {
	case "tail": // nothing of its own on the stack
		s.chooseRegister("rax", "r11", "rcx", "r10")
	case "stub":
		s.chooseRegister("rax")
		s.room = 8 * r.IntN(2)
	case "hoisted", "twice":
		s.chooseRegister(calleeSaved...)
		s.chooseLive()
	default:
		s.chooseRegister(append([]string{"rax", "rax", "rax"}, append(callerSaved, calleeSaved...)...)...)
		s.chooseLive()
		s.room = 8 * r.IntN(4)
	}
	frame := 8*len(s.saved) + s.room
	fmt.Fprintf(s, "\tSHAPE\t%s, %s, %d\n", name, s.class, frame)
	s.prologue()
	k.body(s)
	if k.name != "tail" {
		s.checkLive()
		s.epilogue()
	}
	fmt.Fprintf(s, "\tEND\t%s\n\n", name)
	return s.String(), k.name
}

// chooseRegister picks what holds the address: not an argument.
func (s *shape) chooseRegister(of ...string) {
	s.reg = oneOf(s.Rand, slices.DeleteFunc(slices.Clone(of), func(r string) bool { return slices.Contains(s.arguments, r) }))
	s.use(s.reg)
}

// use notes that a register is written to.
func (s *shape) use(reg string) {
	if slices.Contains(calleeSaved, reg) && !slices.Contains(s.saved, reg) {
		s.saved = append(s.saved, reg)
	}
}

// chooseLive picks registers whose values must survive.
func (s *shape) chooseLive() {
	for _, reg := range slices.Concat(callerSaved, calleeSaved) {
		taken := reg == s.reg || slices.Contains(s.arguments, reg) || slices.Contains(clobbered, reg) || reg == counter
		if !taken && s.IntN(4) == 0 {
			s.live = append(s.live, reg)
			s.use(reg)
		}
	}
}

// counter counts the rounds of a loop.
const counter = "r15"

func (s *shape) line(format string, a ...any) { fmt.Fprintf(s, "\t"+format+"\n", a...) }

func (s *shape) prologue() {
	s.Shuffle(len(s.saved), func(i, j int) { s.saved[i], s.saved[j] = s.saved[j], s.saved[i] })
	for _, reg := range s.saved {
		s.line("push\t%%%s", reg)
		s.line(".cfi_adjust_cfa_offset 8")
	}
	if s.room > 0 {
		s.line("sub\t$%d, %%rsp", s.room)
		s.line(".cfi_adjust_cfa_offset %d", s.room)
	}
	for _, reg := range s.live {
		s.line("movabs\t$%#x, %%%s", s.value(reg), reg)
	}
}

func (s *shape) epilogue() {
	if s.room > 0 {
		s.line("add\t$%d, %%rsp", s.room)
		s.line(".cfi_adjust_cfa_offset -%d", s.room)
	}
	for _, reg := range slices.Backward(s.saved) {
		s.line("pop\t%%%s", reg)
		s.line(".cfi_adjust_cfa_offset -8")
	}
	s.line("ret")
}

// value is what a live register holds: no other register has the same.
func (s *shape) value(reg string) uint64 {
	n := slices.Index(slices.Concat(callerSaved, calleeSaved), reg)
	return 0x5a5a000000000000 + uint64(n+1)*0x1111
}

// checkLive stops the program with SIGILL where a live register changed; rax holds the result.
func (s *shape) checkLive() {
	for _, reg := range s.live {
		s.line("movabs\t$%#x, %%rcx", s.value(reg))
		s.line("cmp\t%%rcx, %%%s", reg)
		s.line("je\t1f")
		s.line("ud2")
		fmt.Fprintln(s, "1:")
	}
}

// page loads the address, in 7 bytes or in 10.
func (s *shape) page() {
	if s.IntN(5) == 0 {
		s.line("movabs\t$%s, %%%s", s.address, s.reg)
		return
	}
	s.line("PAGE\t%s, %%%s", s.address, s.reg)
}

func (s *shape) call() { s.line("call\t*%%%s", s.reg) }

// adjacent: mov and call side by side.
func (s *shape) adjacent() {
	s.page()
	s.call()
}

// tail: the call is the function's last jump.
func (s *shape) tail() {
	if s.IntN(2) == 0 {
		s.filler()
	}
	s.page()
	s.line("jmp\t*%%%s", s.reg)
}

// hoisted: the address is loaded before a loop that calls it. The arguments stay in their
// registers: the page does not change them.
func (s *shape) hoisted() {
	keeper := counter
	if s.reg == counter {
		keeper = "r14"
	}
	// The counter lives on the stack, which nothing else uses.
	s.line("push\t%%%s", keeper)
	s.line("mov\t$%d, %%%s", 2+s.IntN(9), keeper)
	s.page()
	fmt.Fprintln(s, "2:")
	s.fillers(2)
	s.call()
	s.line("dec\t%%%s", keeper)
	s.line("jnz\t2b")
	s.line("pop\t%%%s", keeper)
}

// apart: instructions between mov and call.
func (s *shape) apart() {
	s.page()
	s.fillers(1 + s.IntN(5))
	s.call()
}

// shared: two ways to one call.
func (s *shape) shared() {
	s.line("test\t$1, %%edi") // no address of an out-parameter is odd, so neither way is cold by its look
	s.line("jz\t3f")
	s.page()
	s.fillers(1)
	s.line("jmp\t4f")
	fmt.Fprintln(s, "3:")
	s.page()
	fmt.Fprintln(s, "4:")
	s.fillers(s.IntN(2))
	s.call()
}

// twice: one mov, two calls in a row.
func (s *shape) twice() {
	s.page()
	s.fillers(s.IntN(3))
	s.call()
	s.fillers(s.IntN(3))
	s.call()
}

func (s *shape) fillers(n int) {
	for range n {
		s.filler()
	}
}

// filler is an instruction that changes nothing that is needed: it may write to rcx and r11
// where these are neither the address nor an argument, and rax.
func (s *shape) filler() {
	scratch := slices.DeleteFunc([]string{"rcx", "r11", "rax"}, func(r string) bool {
		return r == s.reg || slices.Contains(s.arguments, r)
	})
	reg := oneOf(s.Rand, scratch)
	label := 50 + s.IntN(9)
	fill := []func(){
		func() { s.line("nop") },
		func() { s.line("nopw\t0(%%rax,%%rax,1)") },
		func() { s.line("mov\t$%#x, %%%s", s.Uint32()>>1, reg) },
		func() { s.line("lea\t8(%%rsp), %%%s", reg) },
		func() { s.line("xor\t%%%s, %%%s", reg, reg) },
		func() { s.line("test\t%%rdi, %%rdi") },
		func() { s.line("push\t%%rdi"); s.line("pop\t%%%s", reg) },
		func() { s.line("cmp\t$%d, %%rdi", s.IntN(100)); s.line("cmovb\t%%rdi, %%%s", reg) },
		func() {
			s.line("cmp\t$%d, %%rdi", s.IntN(100))
			s.line("jb\t%df", label)
			s.line("nop")
			fmt.Fprintf(s, "%d:\n", label)
		},
	}
	oneOf(s.Rand, fill)()
}

// writeNoise returns code and data that name the page and do not call it, and that nobody can take for code
// that does: a whole mov in data is a finding, and a program with a finding is held to less.
func writeNoise(r *rand.Rand) string {
	noise := []string{
		"\t.text\n\tcmp\t$TIME, %rax\n\tsete\t%al\n\tret\n",
		"\t.section .rodata\n\t.byte 0x00, 0xc7, 0xc0, 0x00, 0x04, 0x60, 0xff, 0xff, 0xd0\n\t.text\n",
		"\t.section .rodata\n\t.asciz \"\\x60\\xff\\xff\\xff\\xff\"\n\t.text\n",
		"\t.text\n\tmov\t$0x60ff, %eax\n\tret\n",
		"\t.data\n\t.quad\t0xffffffffff600c00\n\t.text\n",
	}
	return oneOf(r, noise)
}
