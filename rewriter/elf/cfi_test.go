package elf

import (
	"strings"
	"testing"
)

// TestAdvanced: how far instructions advance; for unknown ones the result is not guessed.
func TestAdvanced(t *testing.T) {
	for _, c := range []struct {
		program string
		n       uint64
		ok      bool
	}{
		{"", 0, true},
		{"\x41\x0e\x10", 1, true},
		{"\x02\xff\x03\x00\x01\x04\x00\x00\x01\x00", 255 + 256 + 65536, true},
		{"\x0f\x03\x01\x02\x03\x45", 5, true}, // a block has no instructions
		{"\x10\x06\x01\x41\x41", 1, true},
		{"\x0f\x7f\x41", 0, false},
		{"\x01\x00\x00\x00\x00", 0, false}, // set_loc
		{"\x04\x01", 0, false},
		{"\x0c\x07", 0, false},
		{"\x3f", 0, false},
		{"\x0e\x80", 0, false},
		{"\x0f\x01\x41", 0, true},
		{"\xc3\x41", 1, true},
		{"\x2e\x7f\x41", 1, true},
		{"\x0e\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 0, false}, // a number of more than 64 bits
		{"\x0e\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00\x41", 1, true},
	} {
		if n, ok := Advanced([]byte(c.program)); ok != c.ok || ok && n != c.n {
			t.Errorf("%x: %d, %v", c.program, n, ok)
		}
	}
}

// cieOf is a CIE with instructions.
func cieOf(program string) string {
	return string(little(uint32(len(cieHead)+len(program)))) + string(cieHead) + program
}

// fdeOf is the FDE of 32 bytes of code behind a CIE, with data of the augmentation and instructions.
func fdeOf(cie, data, program string) string {
	return string(little(uint32(12+len(data)+len(program)), uint32(len(cie)+4), uint32(0), uint32(0x20))) + data + program
}

// plain is the CIE that gcc and clang write for C code.
var plain = cieOf(string(PlainCFI) + "\x00\x00")

// TestPlainFDE: the FDEs that vfix can write again, with other instructions.
func TestPlainFDE(t *testing.T) {
	const vaddr = 0x2000
	nops := func(n int) string { return strings.Repeat("\x00", n) }
	for _, c := range []struct {
		name      string
		cie, data string
		program   string
		ok        bool
	}{
		{"plain", plain, "\x00", "\x41\x0e\x10", true},
		{"without instructions", plain, "\x00", "", true},
		{"no byte for the augmentation", plain, "", "", false},
		{"data of the augmentation", plain, "\x01\x00", "", false},
		{"the longest", plain, "\x00", nops(1024 - FDEHead), true},
		{"longer", plain, "\x00", nops(1025 - FDEHead), false},
		{"a long CIE", cieOf(string(PlainCFI) + nops(cieRead-4-len(cieHead)-len(PlainCFI))), "\x00", "", true},
		{"a longer CIE", cieOf(string(PlainCFI) + nops(cieRead-3-len(cieHead)-len(PlainCFI))), "\x00", "", false},
		{"a CIE without nops", cieOf(string(PlainCFI)), "\x00", "", true},
		{"a CIE with other instructions", cieOf(string(PlainCFI) + "\x0e\x10"), "\x00", "", false},
		{"a CIE with fewer instructions", cieOf(string(PlainCFI[:4])), "\x00", "", false},
	} {
		b := c.cie + fdeOf(c.cie, c.data, c.program)
		f := &File{R: Memory(b), Size: uint64(len(b)), Progs: []Prog{{Type: PTLoad, Vaddr: vaddr, Filesz: uint64(len(b)), Memsz: uint64(len(b))}}}
		at := vaddr + uint64(len(c.cie))
		d, cie := f.PlainFDE(at)
		if d.Size != 0 != c.ok || c.ok && (d.Start != at+8 || d.Size != 0x20 || string(d.Program) != c.program || cie != vaddr) {
			t.Errorf("%s: %+v, CIE at %#x", c.name, d, cie)
		}
		elsewhere := []byte(b)
		elsewhere[len(c.cie)+7] = 1
		f.R = Memory(elsewhere)
		if d, _ := f.PlainFDE(at); d.Size != 0 {
			t.Errorf("%s, with a CIE outside: %+v", c.name, d)
		}
	}
}
