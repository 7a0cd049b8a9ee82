package find

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
	"vfix.dev/vfix/tests/recorded"
)

// TestRandomCode compares the findings in functions of random instructions with those that are recorded: most of what a
// rule says depends on what comes before and after an instruction, and rows by hand have few of these combinations.
// The random functions do what compilers do with an address, and what hand-written code may do; -v prints their findings.
// A change that keeps the findings may change the results named paths.
func TestRandomCode(t *testing.T) {
	const groups, each = 24, 125
	for g := range groups {
		t.Run(fmt.Sprint(g), func(t *testing.T) {
			var all, on strings.Builder
			for n := range each {
				b := elf.Memory(newCoder(uint64(g*each + n)).program())
				f, err := Parse(b, int64(len(b)))
				if err != nil {
					t.Fatal(err)
				}
				c := newCode(f, &newBudget().sites)
				r := scanCode(c, nil)
				fmt.Fprintf(&all, "%d: %v %d\n", n, r.Skipped, r.ExecBytes)
				for _, s := range r.Sites {
					fmt.Fprintf(&all, "%+v\n", s)
				}
				if r.Redirect != nil {
					f.ProveRedirect(r.Redirect)
					fmt.Fprintln(&all, *r.Redirect)
				}
				if len(r.Sites) > 0 {
					on.WriteString(paths(c, r.Sites))
				}
			}
			if testing.Verbose() {
				t.Log(all.String())
			}
			recorded.Check(t, t.Name(), all.String())
			recorded.Check(t, t.Name()+" paths", on.String())
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
	soname     string
	half       uint32   // in a word of the data
	relative   []uint64 // words of the data with addresses of the text
	bodies     []int    // offsets of instructions
}

// A fixup is a displacement of four bytes, which leads to a function.
type fixup struct{ at, function int }

func newCoder(seed uint64) *coder {
	c := &coder{state: seed*0x9e3779b97f4a7c15 + 1, base: testBase + testText, vars: testBase + testData + 2*elf.PageSize}
	if c.one(4) {
		c.soname = []string{"", cgroupsFile, "libc.so.6"}[c.n(3)]
		c.dyn, c.base, c.vars = true, testText, testData+2*elf.PageSize
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
	if c.one(32) { // an argument of the function
		disp += c.frame + 8
	} else if c.frame < 32 { // the red zone
		disp = -8 - disp
	}
	c.op(width, []byte{op}, reg, x86.Rsp, 0x40, append([]byte{0x24, byte(disp)}, rest...)...)
}

// variable emits an instruction that accesses a word of the data.
func (c *coder) variable(width int, op byte, reg int) {
	c.op(width, []byte{op}, reg, 0, 5)
	c.relativeTo(c.vars + 8*uint64(c.n(4)))
}

const r13 = x86.R12 + 1

var pageHalves = [...]uint32{0xff600000, 0xff600400, 0xff600800}

// load loads an address of the page, in any way.
func (c *coder) load() {
	c.hot = []int{x86.Rax, x86.Rax, x86.Rax, x86.Rdx, x86.Rbx, r13, x86.Rdi}[c.n(7)]
	half := pageHalves[c.n(3)]
	b, low := byte(c.hot>>3), byte(c.hot&7)
	imm := le(nil, half)
	switch c.n(24) {
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
	case 12: // its negative, or its complement
		if n := c.n(2); c.hot < 8 {
			c.add(append([]byte{0xb8 | low}, le(nil, -half-uint32(n))...)...)
			c.simple()
			c.op(64, []byte{0xf7}, 3-n, int(low), 0xc0)
		}
	case 13: // a part of a longer constant
		c.add(append([]byte{0x48 | b, 0xb8 | low}, [][]byte{le(nil, uint32(c.n(2)), half), le(nil, half, uint32(c.n(2)))}[c.n(2)]...)...)
		c.op(64, []byte{0xc1}, 7, c.hot, 0xc0, 32) // sar
	case 14: // half of it is in the data
		c.half, c.hot = half, x86.Rax
		if c.relativeTo(c.vars+halfAt, [][]byte{{0x8b, 0x05}, {0x48, 0x63, 0x05}}[c.n(2)]...); c.one(2) {
			c.add(0x48, 0x98)
		}
	case 15, 16:
		c.halves(half)
	case 17: // as dietlibc chooses the image of the vDSO
		c.add(0xbf, 33, 0, 0, 0)
		c.variable(64, 0x8b, x86.Rax)
		c.add(append([]byte{0x48, 0xc7, 0xc2}, le(nil, pageHalves[0])...)...)
		c.add(0x48, 0x85, 0xc0, 0x48, 0x0f, 0x44, 0xc2)
		c.relativeTo(c.vars+8*uint64(c.n(4)), 0x48, 0x89, 0x05)
		c.add(0x31, 0xc0, 0x31, 0xd2)
	case 11:
		if c.dyn {
			return
		}
		c.add([][]byte{{0xe8}, {0xe9}, {0x0f, 0x84}, {0x48, 0x8d, 0x05}}[c.n(4)]...)
		c.text = le(c.text, uint32(0xffffffff00000000|uint64(half)-(c.base+uint64(len(c.text))+4)))
	}
}

// relativeTo writes an instruction that ends in the displacement of an address.
func (c *coder) relativeTo(at uint64, op ...byte) {
	c.add(op...)
	c.text = le(c.text, uint32(at-(c.base+uint64(len(c.text))+4)))
}

// halves writes a load of an entry of a table of lower halves, in the data.
func (c *coder) halves(half uint32) {
	c.hot = x86.Rax
	at := c.vars + 64 + uint64(len(c.data))
	c.data = le(c.data, uint32(c.n(2)), half, pageHalves[c.n(3)], uint32(0), at)
	switch c.n(5) {
	case 0:
		c.relativeTo(at, 0x48, 0x8d, 0x15)
		c.add(0x48, 0x63, 0x04, 0x8a) // movslq (%rdx,%rcx,4),%rax
	case 1: // through the pointer to it
		c.relativeTo(at+16, 0x48, 0x8b, 0x15)
		c.add(0x8b, 0x04, 0x8a, 0x48, 0x98)
	case 2:
		c.text = le(c.text, "\x48\x63\x04\x8d", uint32(at)) // movslq table(,%rcx,4),%rax
	case 3:
		c.text = le(c.text, "\xba", uint32(at)) // mov $table,%edx
		c.add(0x8b, 0x04, 0x8a, 0x48, 0x98)
	case 4:
		c.relativeTo(at+16, 0x48, 0x8d, 0x15)
		c.add(0x48, 0x8b, 0x12, 0x48, 0x63, 0x42, 0x04)
	}
}

// simple writes one or two instructions, which continue at the next.
func (c *coder) simple() {
	r, s := c.anyReg(), c.anyReg()
	switch c.n(40) {
	case 34:
		for n := range 8 {
			c.op(64, []byte{0x89}, c.hot, x86.Rsp, 0x40, 0x24, byte(-8-8*n))
		}
	case 35:
		c.word(32, 0xff, 6) // push of a word
		c.op(32, nil, 0, r, 0x58)
	case 36: // movups between a word and the one behind it, and xmm0
		c.add(0x0f)
		c.word(32, []byte{0x10, 0x11}[c.n(2)], 0)
	case 37:
		c.add(0x0f, 0x11, 0x07) // movups %xmm0,(%rdi)
	case 32, 33: // an element of an array on the stack
		c.op(64, []byte{[]byte{0x8b, 0x89, 0x8d}[c.n(3)]}, c.hot, x86.Rsp, 0x40, 0xcc, byte(c.n(4)*8-16))
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
	case 5:
		if c.dyn {
			c.relativeTo(c.vars+importsAt+8*uint64(c.n(len(imports))), 0xff, []byte{0x15, 0x25}[c.n(2)]) // call or jmp of another object's function
		}
	case 7:
		c.op(32, []byte{0xff}, 2, x86.Rsp, 0x40, 0xcc, byte(c.n(4)*8-16))
	case 6:
		if c.soname == cgroupsFile {
			c.relativeTo(c.vars+64, 0x48, 0x8d, 0x35)
		}
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
		c.bodies = append(c.bodies, len(c.text))
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
	relative := func(op ...byte) { c.relativeTo(at, op...) }
	if c.one(6) { // of structures
		c.add([][]byte{{0x48, 0x01, 0xc9}, {0x48, 0xc1, 0xe1, 0x01}, {0x48, 0x6b, 0xc9, 0x03}, {0x48, 0x8d, 0x0c, 0x49}}[c.n(4)]...)
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
			c.relative = append(c.relative, c.vars+64+uint64(len(c.data)))
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
	c.functions, c.bodies = append(c.functions, uint64(len(c.text))), append(c.bodies, len(c.text))
	c.frame, c.rbp, c.hot = 0, false, x86.Rax
	if c.one(8) { // a stub, or nearly one
		c.add([][]byte{subRsp8, nil, {0x53}}[c.n(3)]...)
		c.add(append([]byte{0x48, 0xc7, 0xc0}, le(nil, pageHalves[c.n(3)])...)...)
		c.add([][]byte{{0xff, 0xd0}, {0xff, 0xe0}}[c.n(2)]...)
		c.add([][]byte{append(slices.Clone(addRsp8), opRet), {opRet}, {0x5b, opRet}, {0x31, 0xc9, 0x45, 0x31, 0xdb, opRet}}[c.n(4)]...)
		return
	}
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
	case 4:
		c.callTo(0xe8)
	}
}

// program writes up to four functions, with or without symbols and unwind tables, and the file around them.
func (c *coder) program() []byte {
	var symbols []symbol
	var unwound []int // functions
	if c.soname == cgroupsFile {
		c.data = append(c.data, cgroupsText+"\x00\x00\x00"...)
	}
	if c.one(8) {
		c.data = le(c.data, make([]byte, c.n(2)*2), pageHalves[c.n(3)], ^uint32(0), make([]byte, 6))
		c.data = pad(c.data, 8)
	}
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
		for c.n(3) > 0 {
			symbols = append(symbols, symbol{[]string{"f", "_g", "time", "h.cold"}[c.n(4)], at, size, []byte{elf.STTFunc, elf.STTFunc, elf.STTGNUIfunc, elf.STTNotype}[c.n(4)], byte(c.n(2))})
		}
		if c.one(3) {
			unwound = append(unwound, n)
		}
	}
	return c.file(symbols, unwound)
}

// A symbol of a file; a bind of 0 is local.
type symbol struct {
	name        string
	value, size uint64
	typ, bind   byte
}

// le appends values in little-endian order; a string as its bytes.
func le(b []byte, values ...any) []byte {
	for _, v := range values {
		if s, ok := v.(string); ok {
			v = []byte(s)
		}
		b, _ = binary.Append(b, binary.LittleEndian, v)
	}
	return b
}

func pad(b []byte, align int) []byte { return append(b, make([]byte, -len(b)&(align-1))...) }

// The vaddrs of a program at a fixed address and of its text, which is in the second page, with the data in another
// segment behind it.
const testBase, testText, testData = 0x400000, elf.PageSize, 0x200000

// file is an ELF file with the text and the data, symbols in .symtab and the dynamic table, and .eh_frame.
func (c *coder) file(symbols []symbol, unwound []int) []byte {
	base := c.base - testText
	dataOff := elf.PageUp(testText + uint64(len(c.text)))
	data := append(make([]byte, 64), c.data...)
	copy(data[halfAt:], le(nil, c.half))
	here := func() uint64 { return base + testData + dataOff + uint64(len(data)) }
	table := func(global bool) (syms, strs []byte) {
		syms, strs = make([]byte, elf.SymSize), []byte{0}
		if global {
			for _, name := range imports {
				syms = le(syms, uint32(len(strs)), "\x12\x00", uint16(0), uint64(0), uint64(0))
				strs = append(strs, name+"\x00"...)
			}
			strs = append(strs, c.soname+"\x00"...)
		}
		for _, s := range symbols {
			if !global || s.bind != elf.STBLocal {
				syms = le(syms, uint32(len(strs)), s.bind<<4|s.typ, byte(0), uint16(1), s.value, s.size)
				strs = append(strs, s.name+"\x00"...)
			}
		}
		return syms, strs
	}
	var progs []byte
	segment := func(typ, flags uint32, off, vaddr, size uint64) {
		progs = le(progs, typ, flags, off, vaddr, vaddr, size, size, uint64(elf.PageSize))
	}
	if c.dyn {
		at := here()
		syms, strs := table(true)
		data = append(data, syms...)
		strAt := here()
		data = pad(append(data, strs...), 8)
		hashAt := here()
		data = le(data, uint32(1), uint32(len(syms)/elf.SymSize))
		relaAt := here()
		for n := range imports {
			data = le(data, c.vars+importsAt+8*uint64(n), uint64(elf.RJumpSlot|(n+1)<<32), uint64(0))
		}
		relativeAt := here()
		if c.one(2) {
			slices.Reverse(c.relative)
		}
		for _, word := range c.relative {
			data = le(data, word, uint64(elf.RRelative), binary.LittleEndian.Uint64(data[word-c.vars:]))
		}
		dynAt := here()
		data = le(data, uint64(elf.DTSymtab), at, uint64(elf.DTStrtab), strAt, uint64(elf.DTHash), hashAt, uint64(elf.DTJmprel), relaAt, uint64(elf.DTPltrelsz), relativeAt-relaAt,
			uint64(elf.DTRela), relativeAt, uint64(elf.DTRelasz), dynAt-relativeAt)
		if c.soname != "" {
			data = le(data, uint64(elf.DTSoname), uint64(bytes.Index(strs, []byte(c.soname))))
		}
		data = le(data, make([]byte, 16))
		segment(elf.PTDynamic, elf.PFR|elf.PFW, dynAt-base-testData, dynAt, here()-dynAt)
	}
	if len(unwound) > 0 {
		hdr := here()
		frame := hdr + uint64(12+8*len(unwound))
		fdes := le(nil, uint32(24), "\x00\x00\x00\x00\x01zLR\x00\x01\x78\x10\x02\x1b\x1b\x0c\x07\x08\x90\x01\x00\x00\x00\x00")
		var tables []byte // of landing pads
		data = le(data, "\x01\x1b\x03\x3b", uint32(frame-hdr-4), uint32(len(unwound)))
		for _, n := range unwound {
			start, size := c.base+c.functions[n], c.functions[n+1]-c.functions[n]
			at := frame + uint64(len(fdes))
			data = le(data, uint32(start-hdr), uint32(at-hdr))
			program := []string{"", "\x44\x0e\x10", "\x41\x0e\x10\x43\x0d\x06", "\x0e\x10"}[c.n(4)]
			lsda := uint32(0)
			if c.one(2) { // of 28 bytes each, behind the entries
				lsda = uint32(frame + uint64(len(unwound)+1)*28 + uint64(len(tables)) - (at + 17))
				tables = le(tables, "\xff\xff\x03\x1a")
				for range 2 {
					from, to := c.bodies[c.n(len(c.bodies))], c.bodies[c.n(len(c.bodies))]
					tables = le(tables, uint32(from)-uint32(c.functions[n]), uint32(c.n(20)), uint32(to)-uint32(c.functions[n]), "\x00")
				}
			}
			fdes = le(fdes, uint32(24), uint32(len(fdes)+4), uint32(start-(at+8)), uint32(size), "\x04", lsda, program, make([]byte, 7-len(program)))
		}
		data = pad(append(append(data, fdes...), tables...), 8)
		segment(elf.PTGNUEhFrame, elf.PFR, hdr-base-testData, hdr, frame-hdr)
	}
	segment(elf.PTLoad, elf.PFR|elf.PFX, 0, base, testText+uint64(len(c.text)))
	segment(elf.PTLoad, elf.PFR|elf.PFW, dataOff, base+testData+dataOff, uint64(len(data)))
	file := pad(append(append(make([]byte, testText), c.text...), make([]byte, dataOff-testText-uint64(len(c.text)))...), 1)
	file = append(file, data...)
	syms, strs := table(false)
	symAt := len(file)
	file = append(file, syms...)
	strAt := len(file)
	file = pad(append(file, strs...), 8)
	shoff := len(file)
	file = le(file, make([]byte, elf.ShdrSize),
		uint32(0), uint32(elf.SHTSymtab), uint64(0), uint64(0), uint64(symAt), uint64(len(syms)), uint32(2), uint32(1), uint64(8), uint64(elf.SymSize),
		uint32(0), uint32(elf.SHTStrtab), uint64(0), uint64(0), uint64(strAt), uint64(len(strs)), uint32(0), uint32(0), uint64(1), uint64(0))
	typ := uint16(elf.TypeExec)
	if c.dyn {
		typ = elf.TypeDyn
	}
	copy(file, le(nil, "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", typ, uint16(elf.MachineX8664), uint32(1), c.base, uint64(elf.EhdrSize), uint64(shoff),
		uint32(0), uint16(elf.EhdrSize), uint16(elf.PhdrSize), uint16(len(progs)/elf.PhdrSize), uint16(elf.ShdrSize), uint16(3), uint16(2), progs))
	return file
}

// imports are functions of other objects. The words with their addresses are at importsAt in the data.
var imports = [...]string{"abort", "setjmp", "puts"}

const importsAt, halfAt = 32, 56

// paths has what the analysis of a file has found on the way to its findings, and the states of the flows of its sites
// at each instruction.
func paths(c *code, sites []Site) string {
	var all strings.Builder
	say := func(a ...any) { fmt.Fprintln(&all, a...) }
	fn := c.fn
	say(fn.starts, fn.extents, fn.entered, fn.ifuncs, fn.public, fn.names, fn.labels, fn.untyped, fn.roots)
	say(c.refs.windows, c.refs.branches, c.refs.named, c.refs.others, c.returning, c.imports)
	for _, at := range slices.Sorted(maps.Keys(c.bodies)) {
		b := c.bodies[at]
		say(b.Func, b.parts, b.lens, b.away, b.calls, b.jumps, b.targets, b.damaged, len(b.sites), slices.Sorted(slices.Values(b.pageCalls)), b.pageWords, b.hasFrame, b.bases, b.labels, c.frame(b))
	}
	for i := range sites {
		s := &sites[i]
		if p, err := Look(c.f.R, int64(c.f.Size), s.Offset+s.Call-s.Vaddr+uint64(s.CallLen)); err == nil && s.Call != 0 {
			say(p.Vaddr, p.Symbol, p.Start, p.Call, p.Target, p.Lines, c.f.Start(s.Vaddr, 64))
		}
		if !s.Loads() && !s.Stores() {
			continue
		}
		for _, whole := range []bool{false, true} {
			b := c.holder(s.Vaddr)
			if whole && b == nil {
				continue
			}
			f, why := c.follow(b, s, whole)
			if f == nil {
				say(s.Vaddr, why)
				continue
			}
			f.settle()
			say(s.Vaddr, f.uses, slices.Sorted(maps.Keys(f.calls)), f.mixed, f.exact, f.whole, f.copied, f.shown, f.words, f.onStack, f.given, f.taken, f.state)
		}
	}
	return all.String()
}
