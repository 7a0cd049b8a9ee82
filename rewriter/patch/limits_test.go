package patch

import (
	"bytes"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// rel32 appends an instruction whose last four bytes are the distance to an offset of the text.
func rel32(text []byte, to int, op ...byte) []byte {
	text = append(text, op...)
	return le(text, uint32(to-len(text)-4))
}

const (
	hoistedTime = "53 48c7c3 000460ff"         // push %rbx; mov $time,%rbx: 8 bytes
	storedTime  = "4883ec18 48c70424 000460ff" // sub $24,%rsp; mov $time,(%rsp): 12 bytes
	poppedTime  = "488b0424 ffd0 4883c418 c3"  // mov (%rsp),%rax; call *%rax; add $24,%rsp; ret
	jumpOffset  = "486304b9 4801c8 ffe0"       // movslq (%rcx,%rdi,4),%rax; add %rcx,%rax; jmp *%rax
)

var (
	opLea      = []byte{0x48, 0x8d, 0x05} // to %rax
	opLeaTable = []byte{0x48, 0x8d, 0x0d} // to %rcx
	opCall     = []byte{0xe8}
	opJmp      = []byte{0xe9}
	opJe       = []byte{0x0f, 0x84}
	opNop      = []byte{0x90}
)

// limit is a limit of the search: a file has n of something.
type limit struct {
	name           string
	n              int // the last one within the limit
	build          func(e *testELF, n int)
	within, beyond string // parts of the reasons
}

// check compares the first site of a file within the limit, and of one beyond it, with the reasons.
func (l *limit) check(t *testing.T) {
	for d, want := range []string{l.within, l.beyond} {
		e := testELF{dyn: true}
		l.build(&e, l.n+d)
		file := e.build()
		r, err := Scan(elf.Memory(file), int64(len(file)))
		if err != nil || len(r.Sites) == 0 || !strings.Contains(r.Sites[0].Reason, want) {
			t.Errorf("%d: got %+v, %v, want %q", l.n+d, r.Sites[:min(1, len(r.Sites))], err, want)
		}
	}
}

// function adds the symbol of a function between two offsets of the text.
func (e *testELF) function(name string, from, end int) {
	e.symbols = append(e.symbols, testSym{name, e.textVaddr() + uint64(from), uint64(end - from), elf.STTFunc, 0})
}

const calledAlone, calledOnStack = "the register is called", "only called from there"

// TestLimits: no limit of the search has moved, and what is within it costs no more than it did.
func TestLimits(t *testing.T) {
	nops := func(n int) string { return strings.Repeat("90", n) }
	for _, c := range []limit{
		{"addresses that a function names", 1021, func(e *testELF, n int) { // besides two of the jump
			text, end := asm(t, hoistedTime), 8+7*n+7+9+4
			for range n {
				text = rel32(text, end+8, opLea...)
			}
			text = append(rel32(text, end, opLeaTable...), asm(t, jumpOffset+"ffd3 5b c3")...)
			e.text = append(le(text, int32(-4)), make([]byte, 16)...)
			e.function("f", 0, end)
		}, calledAlone, "indirect jump"},
		{"entries of a table", 1 << 12, func(e *testELF, n int) {
			text, end := asm(t, hoistedTime), 8+7+9+9
			text = append(rel32(text, end, opLeaTable...), asm(t, jumpOffset+"ffd3 5b c3 4839c3 ebf7")...)
			for range n - 1 {
				text = le(text, int32(-9))
			}
			e.text = le(text, int32(-5))
			e.function("f", 0, end)
		}, "compared", calledAlone},
		{"words of the stack", 6, func(e *testELF, n int) {
			e.text = asm(t, movRaxTime)
			for w := range n {
				e.text = append(e.text, 0x48, 0x89, 0x44, 0x24, byte(-8*(w+1))) // mov %rax,-8(%rsp)
			}
			e.text = append(e.text, asm(t, "ff5424f8 c3")...)
			e.function("f", 0, len(e.text))
		}, "from there", "too many places"},
		{"parts of a function", 16, func(e *testELF, n int) {
			const size = 16
			text := asm(t, storedTime)
			e.text = make([]byte, (n+16)*size)
			for p := range n {
				text = rel32(text, (p+16)*size, opJe...)
				copy(e.text[(p+16)*size:], asm(t, poppedTime))
				e.function("f.cold", (p+16)*size, (p+17)*size)
			}
			copy(e.text, append(text, asm(t, poppedTime)...))
			e.function("f", 0, 12+6*n+11)
		}, calledOnStack, "unknown frame"},
		{"rounds of parts", 3, func(e *testELF, n int) {
			const apart = 0x18000
			e.text = asm(t, storedTime)
			for p := range n {
				e.text = rel32(e.text, (p+1)*apart, opJmp...)
				e.function("f.cold"[:1+5*min(p, 1)], p*apart, len(e.text))
				e.text = append(e.text, make([]byte, (p+1)*apart-len(e.text))...)
			}
			e.text = append(e.text, asm(t, poppedTime)...)
			e.function("f.cold", n*apart, len(e.text))
		}, calledOnStack, "unknown frame"},
		{"starts before the site", 7, func(e *testELF, n int) {
			e.text = append(append(asm(t, "eb10"), bytes.Repeat([]byte{0x06}, 16)...), asm(t, movRaxTime+callRax+"c3")...)
			e.function("f", 0, len(e.text))
			for i := range n {
				e.function("g", 3+i, 3+i)
			}
		}, calledAlone, "no known code"},
		{"called addresses before the site", 15, func(e *testELF, n int) { // besides its function's
			text := rel32(nil, 0x100, opCall...)
			for i := range n {
				text = rel32(text, 0x103+i, opCall...)
			}
			end := len(text) + 1
			e.text = append(append(text, 0xc3), make([]byte, 0x100-end)...)
			e.text = append(e.text, asm(t, "eb20"+strings.Repeat("06", 0x20)+movRaxTime+callRax+"c3")...)
			e.function("f", 0, end)
			e.entry = e.textVaddr() + 0x101
		}, calledAlone, "no known code"},
		{"bytes from the start of a function", 1 << 16, func(e *testELF, n int) {
			e.text = append(append(bytes.Repeat([]byte{0x66, 0x90}, n/2), bytes.Repeat(opNop, n%2)...), asm(t, movRaxTime+callRax+"c3")...)
			e.function("f", 0, len(e.text))
		}, calledAlone, "no known code"},
		{"instructions of a function", 1 << 16, func(e *testELF, n int) {
			e.text = append(asm(t, "7417"+storedTime+poppedTime), bytes.Repeat(opNop, n-8)...)
			e.text = append(e.text, 0xc3)
			e.function("f", 0, len(e.text))
		}, calledOnStack, "stored in memory"},
		{"instructions of a thunk", 12, func(e *testELF, n int) {
			e.text = asm(t, hoistedTime+"e803000000 5b c3 cc"+nops(n-1)+"ffe3")
			e.function("f", 0, 15)
			e.function("thunk", 16, len(e.text))
		}, calledAlone, "nothing is seen"},
		{"instructions up to a return", 4000, func(e *testELF, n int) {
			e.text = asm(t, hoistedTime+"85ff 7404 ffd3 5b c3 e803000000 4839c3"+nops(n-1)+"f4")
			e.function("f", 0, 24)
			e.function("g", 24, len(e.text))
		}, calledAlone, "compared"},
		{"callees up to the end of the program", calleeDepth, func(e *testELF, n int) {
			e.text = asm(t, hoistedTime+"85ff 7404 ffd3 5b c3 e805000000 4839c3 5b c3"+strings.Repeat(nops(12)+"e801000000 c3", n-1)+nops(12)+"f4")
		}, calledAlone, "compared"},
		{"instructions up to a changed return address", 12, func(e *testELF, n int) {
			e.text = asm(t, hoistedTime+"85ff 7404 ffd3 5b c3 e803000000 4839c3 e801000000 f4"+nops(n-1)+"48893c24 c3")
		}, "compared", calledAlone},
		{"callees of a callee", calleeDepth, func(e *testELF, n int) {
			for range n {
				e.text = rel32(e.text, len(e.text)+6, opCall...)
				e.text = append(e.text, 0xc3)
			}
			e.text = append(asm(t, "48c7c7 000460ff"), append(e.text, asm(t, "4839f7 31ff c3")...)...)
		}, "compared", "argument"},
		{"instructions of a path", maxFlow, func(e *testELF, n int) {
			e.text = asm(t, movRaxTime+nops(n-1)+callRax+"c3")
			e.function("f", 0, len(e.text))
		}, calledAlone, "too much code"},
		{"instructions of callees", 63, func(e *testELF, n int) {
			const each = 1 << 10
			e.text = make([]byte, each)
			text := asm(t, hoistedTime)
			for i := range n {
				text = rel32(text, (i+1)*each, opCall...)
				e.text = append(append(e.text, bytes.Repeat(opNop, each-1)...), 0xc3)
			}
			text = rel32(text, len(e.text), opCall...)
			e.text = append(e.text, asm(t, nops(16)+"4839c3 c3")...)
			copy(e.text, append(text, asm(t, "ffd3 5b c3")...))
		}, "compared", calledAlone},
	} {
		t.Run(c.name, c.check)
	}
}

// TestLargeFiles is TestLimits for the limit of tables in one file, which real files come near to.
func TestLargeFiles(t *testing.T) {
	for _, c := range []limit{
		{"entries of tables", 5460, func(e *testELF, n int) {
			const table = 1 << 15 // twice the limit
			zeros := 14*n + 18
			e.text = asm(t, timeStubText)
			for range n {
				e.text = rel32(rel32(e.text, 18, opLea...), zeros, opLea...)
			}
			e.text = append(e.text, make([]byte, table)...)
			e.function("f", 0, 18)
		}, calledAlone, "too much code"},
		{"entries of tables of a function", 31, func(e *testELF, n int) {
			text, end := asm(t, movR13Time), 7+7*n+7*n+2
			for i := range n {
				text = rel32(rel32(text, 7*i, opLea...), end+4*i, opLea...)
			}
			e.text = append(append(text, asm(t, "ffe0")...), make([]byte, 1<<14)...)
			e.function("f", 0, end)
		}, "nothing is seen", "too much code"},
	} {
		t.Run(c.name, c.check)
	}
}
