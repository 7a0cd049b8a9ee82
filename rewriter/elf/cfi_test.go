package elf

import (
	"testing"
)

// TestAdvanced: how far instructions get, and that what is not known is not guessed at.
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
