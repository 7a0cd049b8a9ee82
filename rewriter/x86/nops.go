// Instructions that do nothing.

package x86

import "golang.org/x/arch/x86/x86asm"

// Nops are the recommended nops of each length (SDM volume 2, NOP, table 4-12).
var Nops = [...][]byte{
	{},
	{0x90},
	{0x66, 0x90},
	{0x0f, 0x1f, 0x00},
	{0x0f, 0x1f, 0x40, 0x00},
	{0x0f, 0x1f, 0x44, 0x00, 0x00},
	{0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
	{0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
	{0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00}, // the longest gap: movabs, call *%r8 to r15
}

// Padding returns the length in bytes of one padding instruction between functions at the start of b: a nop, int3,
// or a 0 byte; 0 for none.
func Padding(b []byte) int {
	if len(b) > 0 && (b[0] == 0 || b[0] == opInt3) {
		return 1
	}
	if i, _ := Decode(b, 0); i.Op == x86asm.NOP {
		return i.Len
	}
	return 0
}

const opInt3 = 0xcc
