package patch

import (
	"bytes"
	"fmt"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

// TestRandomCode compares the findings in functions of random instructions with those that are recorded: most of what a
// rule says depends on what comes before and after an instruction, and rows by hand have few of these combinations.
// The random functions do what compilers do with an address, and what hand-written code may do; -v prints their findings.
func TestRandomCode(t *testing.T) {
	const groups, each = 32, 125
	for g := range groups {
		t.Run(fmt.Sprint(g), func(t *testing.T) {
			for n := range each {
				r := scanOnce(t, newCoder(uint64(g*each+n)).program().build())
				note(t, findings(r))
				t.Logf("%d:\n%s", g*each+n, findings(r))
			}
		})
	}
}

// A coder writes functions of random instructions.
type coder struct {
	state      uint64
	text, data []byte
	hot        int      // the register that has the address, as far as this is known
	functions  []uint64 // the offsets of their starts
	calls      []fixup  // of other functions
	depth      int
	frame      int64 // bytes of the function's own words on the stack
	rbp        bool  // is the frame pointer
	loads      int   // addresses still to be loaded
	base, vars uint64
	dyn        bool
}

// A fixup is a displacement of four bytes, which leads to a function.
type fixup struct{ at, function int }

func newCoder(seed uint64) *coder {
	c := &coder{state: seed*0x9e3779b97f4a7c15 + 1, base: testBase + testTextOff, vars: testBase + 0x200000 + 2*testPage}
	if c.one(4) {
		c.dyn, c.base, c.vars = true, testTextOff, 0x200000+2*testPage
	}
	return c
}

// n returns a number below n: xorshift64*, whose sequence never changes.
func (c *coder) n(n int) int {
	c.state ^= c.state >> 12
	c.state ^= c.state << 25
	c.state ^= c.state >> 27
	return int(c.state * 0x2545f4914f6cdd1d >> 33 % uint64(n))
}

// one is true once in n times.
func (c *coder) one(n int) bool { return c.n(n) == 0 }

func (c *coder) add(b ...byte) { c.text = append(c.text, b...) }

// anyReg returns a register, often the hot one; never rsp, and rbp only if it has another value than the frame.
func (c *coder) anyReg() int {
	if !c.one(3) {
		return c.hot
	}
	regs := []int{x86.Rax, x86.Rax, x86.Rcx, x86.Rdx, x86.Rbx, x86.Rsi, x86.Rdi, x86.R8, x86.R11, x86.R12, r13, x86.Rbp}
	if c.rbp {
		regs = regs[:len(regs)-1]
	}
	return regs[c.n(len(regs))]
}

// op writes an instruction of 64 or 32 bits with a register, and a ModRM byte with what follows, whose lower three bits
// are of the register rm.
func (c *coder) op(width int, op []byte, reg, rm int, modrm byte, rest ...byte) {
	rex := byte(0x40 | reg>>3<<2 | rm>>3)
	if width == 64 {
		rex |= 8
	}
	if rex != 0x40 {
		c.add(rex)
	}
	c.add(op...)
	c.add(modrm | byte(reg&7)<<3 | byte(rm&7))
	c.add(rest...)
}

func (c *coder) rr(width int, op byte, reg, rm int) { c.op(width, []byte{op}, reg, rm, 0xc0) }

// word emits an instruction that accesses a word of the function's frame.
func (c *coder) word(width int, op byte, reg int, rest ...byte) {
	disp := int64(c.n(4)) * 8
	if c.one(16) {
		disp += 4
	}
	if c.rbp && c.one(2) {
		c.op(width, []byte{op}, reg, x86.Rbp, 0x40, append([]byte{byte(-8 - disp)}, rest...)...)
		return
	}
	if c.frame < 32 { // the red zone
		disp = -8 - disp
	}
	c.op(width, []byte{op}, reg, x86.Rsp, 0x40, append([]byte{0x24, byte(disp)}, rest...)...)
}

// variable emits an instruction that accesses a word of the data.
func (c *coder) variable(width int, op byte, reg int) {
	at := c.vars + 8*uint64(c.n(4))
	c.op(width, []byte{op}, reg, 0, 5)
	c.text = le(c.text, uint32(at-(c.base+uint64(len(c.text))+4)))
}

const r13 = x86.R12 + 1

var pageHalves = [...]uint32{0xff600000, 0xff600400, 0xff600800}

// load loads an address of the page, in any way.
func (c *coder) load() {
	c.hot = []int{x86.Rax, x86.Rax, x86.Rax, x86.Rdx, x86.Rbx, r13, x86.Rdi}[c.n(7)]
	half := pageHalves[c.n(3)]
	b, low := byte(c.hot>>3), byte(c.hot&7)
	imm := le(nil, half)
	switch c.n(16) {
	default:
		c.add(append([]byte{0x48 | b, 0xc7, 0xc0 | low}, imm...)...)
	case 0, 1:
		c.add(append([]byte{0x48 | b, 0xb8 | low}, le(nil, half, ^uint32(0))...)...)
	case 2:
		c.add(append([]byte{0x48 | b<<2, 0x8d, 4 | low<<3, 0x25}, imm...)...)
	case 3, 4: // half of it
		c.hot = x86.Rax
		c.add(append([]byte{0xb8}, imm...)...)
		c.simple()
		c.add(0x48, 0x98)
	case 5:
		if c.hot < 8 {
			c.add(append([]byte{0xb8 | low}, imm...)...)
			c.simple()
			c.rr(64, 0x63, c.hot, c.hot)
		}
	case 6:
		c.add(append([]byte{0x68}, imm...)...)
		c.body()
		c.add(0x58 | low) // pop, perhaps into another register
	case 7:
		c.word(64, 0xc7, 0, imm...)
	case 8:
		c.word(32, 0xc7, 0, imm...)
		if c.one(2) {
			c.word(32, 0xc7, 0, 0xff, 0xff, 0xff, 0xff)
		}
	case 9:
		c.op(64, []byte{0x81}, 5, c.hot, 0xc0, le(nil, -half)...) // sub of the negative
	case 10:
		c.op(64, []byte{0x81}, []int{0, 1, 4, 6, 7}[c.n(5)], c.hot, 0xc0, imm...) // add, or, and, xor, cmp
	case 11:
		if c.dyn {
			return
		}
		c.add([]byte{0xe8, 0xe9}[c.n(2)])
		c.text = le(c.text, uint32(0xffffffff00000000|uint64(half)-(c.base+uint64(len(c.text))+4)))
	}
}

// simple writes one or two instructions, which continue at the next.
func (c *coder) simple() {
	r, s := c.anyReg(), c.anyReg()
	switch c.n(32) {
	case 0, 1, 2: // mov
		c.rr(64, 0x89, c.hot, r)
		if !c.one(4) {
			c.hot = r
		}
	case 3:
		c.rr(64, 0x87, s, r) // xchg
	case 4:
		c.rr(64, 0x85, r, r) // test
	case 5:
		c.rr(64, 0x39, s, r) // cmp
	case 6, 7:
		c.rr(64, 0x85, x86.Rax, x86.Rax)
		c.op(64, []byte{0x0f, 0x44}, r, s, 0xc0) // cmove
		c.hot = r
	case 8, 9: // PTR_MANGLE
		c.add(0x64)
		c.op(64, []byte{0x33}, c.hot, 0, 4, 0x25, 0x30, 0, 0, 0)
		if !c.one(8) {
			c.op(64, []byte{0xc1}, 0, c.hot, 0xc0, 0x11)
			c.variable(64, 0x89, c.hot)
		}
	case 10:
		c.variable(64, 0x89, r)
	case 11:
		c.variable(64, 0x8b, r)
	case 12, 13, 14:
		c.word(64, 0x89, r)
	case 15, 16, 17:
		c.word(64, 0x8b, r)
		if c.one(2) {
			c.hot = r
		}
	case 18:
		c.word(64, 0x8d, r) // lea
	case 19:
		c.word(32, 0x89, r)
	case 20:
		c.word([]int{32, 64}[c.n(2)], 0x63, r) // movslq
	case 21:
		c.rr(64, []byte{0x01, 0x29, 0x31, 0x21, 0x09}[c.n(5)], s, r)
	case 22, 23:
		c.rr(32, 0x31, s, s)
	case 24:
		c.rr(32, 0x89, s, r)
	case 25:
		if r&7 != 4 {
			c.op(64, []byte{0x8b}, s, r, 0x40, 8) // mov 8(%r),%s
		}
	case 26:
		c.op(64, []byte{0x83}, c.n(2)*5, r, 0xc0, 8) // add or sub
	case 27:
		c.op(64, []byte{0xf7}, 2+c.n(2), r, 0xc0) // not or neg
	case 28:
		c.add(0x0f, 0x05) // syscall
	case 29:
		c.add(0x66, 0x48, 0x0f, 0x6e, 0xc0) // movq %rax,%xmm0
		c.word(32, 0x89, s)
	case 30:
		c.add([]byte{0x48, 0x98, 0x90, 0xcc, 0x9c, 0xc9, 0xd7, 0x50}[c.n(8)]) // dec, cwtl, nop, int3, pushf, leave, xlat, push
	case 31:
		c.word(64, 0x83, 7, 0) // cmp $0
	}
}

// away writes a call or a jump through the hot register, a word, or to another function.
func (c *coder) away() {
	switch c.n(12) {
	default:
		c.op(32, []byte{0xff}, 2, c.hot, 0xc0)
	case 0, 1:
		c.word(32, 0xff, 2)
	case 2, 3:
		c.callTo(0xe8)
	case 4:
		c.op(32, []byte{0xff}, 4, c.hot, 0xc0) // jmp
	}
}

func (c *coder) callTo(op ...byte) {
	c.add(op...)
	c.calls = append(c.calls, fixup{len(c.text), c.n(4)})
	c.add(0, 0, 0, 0)
}

// body writes some instructions, and again what is in branches and loops.
func (c *coder) body() {
	c.depth++
	defer func() { c.depth-- }()
	for range 1 + c.n(4) {
		if c.loads > 0 && c.one(2) {
			c.loads--
			c.load()
		}
		switch k := c.n(16); {
		case k < 6 || c.depth > 3:
			c.simple()
		case k < 9:
			c.away()
		case k < 11: // if, and perhaps else
			skip := c.branch([]byte{0x74, 0x75, 0x78, 0xe3}[c.n(4)])
			c.body()
			if c.one(2) {
				end := c.branch(0xeb)
				c.here(skip)
				c.body()
				skip = end
			}
			c.here(skip)
		case k < 12: // loop
			top := len(c.text)
			c.body()
			if d := top - len(c.text) - 2; d >= -128 {
				c.add(0x75, byte(d))
			}
		case k < 14: // push, pop
			r := c.anyReg()
			c.op(32, nil, 0, r, 0x50)
			c.frame += 8
			c.body()
			c.frame -= 8
			if !c.one(3) {
				r = c.anyReg()
			}
			c.op(32, nil, 0, r, 0x58)
		case k < 15: // switch
			c.table()
		default:
			c.callTo([][]byte{{0xe9}, {0x0f, 0x84}, {0xe8}}[c.n(3)]...)
		}
	}
}

// branch writes a short branch, and returns its end for here.
func (c *coder) branch(op byte) int {
	c.add(op, 0)
	return len(c.text)
}

func (c *coder) here(branch int) {
	if d := len(c.text) - branch; d < 128 {
		c.text[branch-1] = byte(d)
	}
}

// table writes a jump through a table of two words, or of offsets, in the data, as compilers do, at times with another
// instruction in it or a bit that differs.
func (c *coder) table() {
	at, begin := c.vars+64+uint64(len(c.data)), len(c.text)
	relative := func(op ...byte) { // to the table
		c.add(op...)
		c.text = le(c.text, uint32(at-(c.base+uint64(len(c.text))+4)))
	}
	absolute := func(op ...byte) { c.text = le(append(c.text, op...), uint32(at)) }
	offsets := false
	switch c.n(7) {
	case 0:
		absolute(0xff, 0x24, 0xcd) // jmp *table(,%rcx,8)
	case 1:
		absolute(0x48, 0x8b, 0x04, 0xcd) // mov table(,%rcx,8),%rax
		c.add(0xff, 0xe0)
	case 2:
		absolute(0xba) // mov $table,%edx
		c.add(0x48, 0x8b, 0x04, 0xca, 0xff, 0xe0)
	case 3: // movslq (%rdx,%rcx,4),%rsi; add %rdx,%rsi
		relative(0x48, 0x8d, 0x15)
		c.add(0x48, 0x63, 0x34, 0x8a, 0x48, 0x01, 0xd6, 0xff, 0xe6)
		offsets = true
	case 4: // gcc -O0: lea 0(,%rcx,4),%rsi; mov (%rsi,%rdx,1),%eax; cltq; add %rdx,%rax
		c.add(0x48, 0x8d, 0x34, 0x8d, 0, 0, 0, 0)
		relative(0x48, 0x8d, 0x15)
		c.add(0x8b, 0x04, 0x16, 0x48, 0x98)
		relative(0x48, 0x8d, 0x15)
		c.add(0x48, 0x01, 0xd0, 0xff, 0xe0)
		offsets = true
	case 5: // another address by a condition, and through another register
		absolute(0x48, 0x8b, 0x04, 0xcd)
		c.add(0x48, 0x0f, 0x45, 0xc6, 0x48, 0x89, 0xc2, 0xff, 0xe2)
	case 6: // mov of one of two words of the stack: a computed goto
		relative(0x48, 0x8d, 0x05)
		c.add(0x48, 0x8b, 0x04, 0xc8, 0x48, 0x89, 0x44, 0x24, 0xf8, 0xff, 0x64, 0x24, 0xf8)
	}
	if c.one(3) {
		c.text[begin+c.n(len(c.text)-begin)] ^= 1 << c.n(8)
	}
	var end []int
	for range 2 {
		if to := c.base + uint64(len(c.text)); offsets {
			c.data = le(c.data, uint32(to-at))
		} else {
			c.data = le(c.data, to)
		}
		c.body()
		end = append(end, c.branch(0xeb))
	}
	c.data = pad(c.data, 8)
	for _, e := range end {
		c.here(e)
	}
}

// function writes a function with one of the usual beginnings and ends.
func (c *coder) function() {
	c.functions = append(c.functions, uint64(len(c.text)))
	c.frame, c.rbp, c.hot = 0, false, x86.Rax
	var end []byte
	switch c.n(5) {
	case 0:
		c.add(subRsp8...)
		c.frame, end = 8, addRsp8
	case 1:
		c.add(0x48, 0x83, 0xec, 0x28)
		c.frame, end = 0x28, []byte{0x48, 0x83, 0xc4, 0x28}
	case 2:
		c.add(0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20)
		c.frame, c.rbp, end = 0x20, true, []byte{0xc9}
	case 3:
		c.add(0x53)
		c.frame, end = 8, []byte{0x5b}
	}
	c.body()
	if c.loads > 0 {
		c.loads--
		c.load()
		c.away()
	}
	c.add(end...)
	switch c.n(12) {
	default:
		c.add(opRet)
	case 0:
		c.op(32, nil, 0, c.hot, 0x50)
		c.add(opRet)
	case 1:
		c.callTo(0xe9)
	case 2:
		c.op(32, []byte{0xff}, 4, c.hot, 0xc0)
	case 3:
		c.add(0x0f, 0x0b)
	}
}

// program writes up to four functions, with or without symbols and unwind tables.
func (c *coder) program() *testELF {
	e := &testELF{dyn: c.dyn, dynamic: c.dyn, comment: []string{"", gcc4, gcc5}[c.n(3)]}
	for f := range 1 + c.n(4) {
		c.loads = 0
		if f == 0 || c.one(2) {
			c.loads = 1 + c.n(2)
		}
		c.function()
		if c.one(2) {
			c.text = append(c.text, bytes.Repeat([]byte{0x90}, -len(c.text)&15)...)
		}
	}
	for _, f := range c.calls {
		to := c.functions[f.function%len(c.functions)]
		copy(c.text[f.at:], le(nil, uint32(int64(to)-int64(f.at+4))))
	}
	c.functions = append(c.functions, uint64(len(c.text)))
	for n := range len(c.functions) - 1 {
		at, size := c.base+c.functions[n], c.functions[n+1]-c.functions[n]
		if c.one(8) {
			size = 0
		}
		if !c.one(4) {
			e.symbols = append(e.symbols, testSym{[]string{"f", "_g", "time", "h.cold"}[c.n(4)], at, size, []byte{elf.STTFunc, elf.STTFunc, elf.STTGNUIfunc}[c.n(3)], byte(c.n(2))})
		}
		if c.one(3) {
			e.fdes = append(e.fdes, at)
		}
	}
	e.text, e.data = c.text, append(make([]byte, 64), c.data...)
	return e
}
