package rewriter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// TestOffsetTables: an assembly function without bounds jumps by a table of offsets to the call in
// the middle of another one.
func TestOffsetTables(t *testing.T) {
	const (
		f     = 0x10 // mov, call
		call  = f + 7
		g     = 0x20 // the jump
		table = 0x60
	)
	lea := func(reg byte, at, to int) string { // from rip, 7 bytes
		return fmt.Sprintf("488d %02x %08x", 5|reg<<3, bswap(uint32(to-(at+7))))
	}
	number := func(size, n int) []byte {
		return binary.LittleEndian.AppendUint32(nil, uint32(n))[:size]
	}
	for _, c := range []struct {
		name, code string
		table      func(to int) []byte
	}{
		{"four bytes from the table", lea(1, g, table) + "486304 81 4801c8 ffe0", func(to int) []byte { return number(4, to-table) }},
		{"four bytes from a label", lea(1, g, table) + lea(2, g+7, f) + "486304 81 4801d0 ffe0", func(to int) []byte { return number(4, to-f) }},
		{"four bytes, in r8 to r11", "4c8d05" + lea(0, g, table)[8:] + "4d6314 80 4d01c2 41ffe2", func(to int) []byte { return number(4, to-table) }},
		{"four bytes, pushed", lea(1, g, table) + "486304 81 4801c8 50 c3", func(to int) []byte { return number(4, to-table) }},
		{"four bytes, added by lea", lea(1, g, table) + "486304 81 488d0401 ffe0", func(to int) []byte { return number(4, to-table) }},
		{"four bytes, the base copied", lea(1, g, table) + "4889ca 486304 82 4801d0 ffe0", func(to int) []byte { return number(4, to-table) }},
		{"two bytes", lea(1, g, table) + lea(2, g+7, 0) + "0fb704 41 4801d0 ffe0", func(to int) []byte { return number(2, to) }},
		{"two bytes below the table", lea(1, g, table) + "480fbf04 41 4801c8 ffe0", func(to int) []byte { return number(2, to-table) }},
		{"one byte", lea(1, g, table) + lea(2, g+7, 0) + "0fb604 01 4801d0 ffe0", func(to int) []byte { return number(1, to) }},
		{"one byte below the table", lea(1, g, table) + "480fbe04 01 4801c8 ffe0", func(to int) []byte { return number(1, to-table) }},
	} {
		for _, to := range []int{call, f} {
			for _, dyn := range []bool{false, true} {
				text := bytes.Repeat([]byte{0xcc}, table)
				copy(text[f:], asm(t, movRaxTime+callRax+"c3"))
				copy(text[g:], asm(t, c.code))
				text = append(append(text, c.table(to)...), bytes.Repeat([]byte{0xcc}, 16)...)
				e := testELF{dyn: dyn, text: text, comment: gcc4}
				e.symbols = []testSym{{"f", e.textVaddr() + f, 10, elf.STTFunc, 1}}
				p := planFile(t, e.build(), Options{})
				if len(p.Patches) != 1 {
					t.Fatalf("%s: got %+v", c.name, p.Patches)
				}
				if q := p.Patches[0]; (q.Form == Lea) != (to == call) || q.Form == Left {
					t.Errorf("%s, to %#x, ET_DYN %v: got %v (%s)", c.name, to, dyn, q.Form, q.Reason)
				}
			}
		}
	}
}

// TestOffsetTablesBounded: a file made of tables costs a bounded time, and its call sites only their
// longer forms.
func TestOffsetTablesBounded(t *testing.T) {
	one := asm(t, "488d0d 00010000 486304 81 4801c8 ffe0") // lea, movslq, add, jmp
	text := append(asm(t, "53"+movRaxTime+callRax+"5b c3"), bytes.Repeat(one, 1<<12)...)
	e := testELF{dyn: true, text: text}
	e.symbols = []testSym{{"f", e.textVaddr(), 12, elf.STTFunc, 1}}
	p := planFile(t, e.build(), Options{})
	if q := p.Patches[0]; q.Form != Lea || q.Reason != "more tables of offsets than can be read may lead into it" {
		t.Errorf("got %v (%s)", q.Form, q.Reason)
	}
}
