package elf

import (
	"bytes"
	"testing"
)

// TestRelr decodes a table by the example of the gABI proposal: an address and a bitmap.
func TestRelr(t *testing.T) {
	const base = 0x400000
	table := little(uint64(0x10000), uint64(1|1<<1|1<<3|1<<63), uint64(1|1<<1), uint64(0x20000))
	f := &File{R: bytes.NewReader(table), Size: uint64(len(table)),
		Progs:   []Prog{{Type: PTLoad, Vaddr: base, Filesz: uint64(len(table)), Memsz: uint64(len(table))}},
		Dynamic: []Dyn{{Tag: DTRelr, Val: base}, {Tag: DTRelrsz, Val: uint64(len(table))}}}
	for vaddr, want := range map[uint64]bool{
		0x10000: true, 0x10008: true, 0x10010: false, 0x10018: true, 0x10008 + 62*8: true, 0x10008 + 63*8: true, 0x10008 + 64*8: false,
		0x1000c: false, 0x20000: true, 0x20008: false, 0: false,
	} {
		if got := f.InRelr(vaddr); got != want {
			t.Errorf("vaddr %#x: got %v, want %v", vaddr, got, want)
		}
	}
}
