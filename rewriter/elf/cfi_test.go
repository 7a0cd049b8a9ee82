package elf

import (
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
	} {
		if n, ok := Advanced([]byte(c.program)); ok != c.ok || ok && n != c.n {
			t.Errorf("%x: %d, %v", c.program, n, ok)
		}
	}
}

// TestCFA: the frame's address at each place of a function, from the instructions before it.
func TestCFA(t *testing.T) {
	const start = 0x1000
	cie := "\x14\x00\x00\x00" + string(cieHead) + string(PlainCFI) + "\x00\x00"
	fde := func(program string) string {
		return string([]byte{byte(13 + len(program)), 0, 0, 0, byte(len(cie) + 4), 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0}) + program
	}
	for _, c := range []struct {
		program string
		at      uint64
		want    CFA
		ok      bool
	}{
		{"", 0, EntryCFA, true},
		{"", 0x1f, EntryCFA, true},
		{"", 0x20, CFA{}, false}, // behind it
		{"\x41\x0e\x10\x86\x02\x43\x0d\x06", 0, EntryCFA, true},
		{"\x41\x0e\x10\x86\x02\x43\x0d\x06", 1, CFA{DwarfRSP, 16}, true},
		{"\x41\x0e\x10\x86\x02\x43\x0d\x06", 4, FrameCFA, true},
		{"\x0e\x10\x41\x0a\x0e\x08\x41\x0b", 1, EntryCFA, true}, // remembered and restored
		{"\x0e\x10\x41\x0a\x0e\x08\x41\x0b", 2, CFA{DwarfRSP, 16}, true},
		{"\x41\x0b", 1, CFA{}, false},
		{"\x41\x0f\x02\x77\x08", 1, CFA{}, false}, // an expression
		{"\x41\x3f", 0x10, CFA{}, false},
	} {
		b := cie + fde(c.program) + "\x00\x00\x00\x00\x00\x00\x00\x00"
		f := &File{R: Memory(b), Size: uint64(len(b))}
		got, ok := f.CFA(Func{Start: start, FDE: uint64(len(cie))}, start+c.at)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%x at %#x: %v, %v", c.program, c.at, got, ok)
		}
	}
}
