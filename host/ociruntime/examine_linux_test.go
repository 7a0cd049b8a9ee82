package ociruntime

import (
	"encoding/binary"
	"strings"
	"testing"
)

// A program is a file that the kernel or a loader accepts as one; only the kernel determines which are 64-bit.
func TestIsProgram(t *testing.T) {
	head := func(magic string, etype, machine, size64, size32 uint16) string {
		b := make([]byte, 64)
		copy(b, magic)
		for at, v := range map[int]uint16{16: etype, 18: machine, 54: size64, 42: size32} {
			binary.LittleEndian.PutUint16(b[at:], v)
		}
		return string(b)
	}
	const magic, any, is, native = "\x7fELF", "code", true, true
	for name, c := range map[string]struct {
		head       string
		is, native bool
	}{
		"64-bit program":            {head(magic, 2, 62, 56, 64), is, native},
		"library":                   {head(magic, 3, 62, 56, 64), is, native},
		"x32, which is 64-bit code": {head(magic, 2, 62, 40, 32), is, !native},
		"of another machine":        {head(magic, 2, 183, 56, 64), is, !native},
		"32-bit":                    {head(magic, 2, 3, 40, 32), is, !native},
		"library that musl takes":   {head(any, 3, 3, 56, 64), is, !native},
		"such a program":            {head(any, 2, 62, 56, 64), is, !native},
		"of no kind":                {head(any, 4, 62, 56, 64), !is, !native},
		"object file":               {head(magic, 1, 62, 0, 64), is, native},
		"text":                      {strings.Repeat("text\n", 20), !is, !native},
		"cut off":                   {head(magic, 2, 62, 56, 64)[:40], !is, !native},
	} {
		if is, native, err := isProgram(strings.NewReader(c.head)); err != nil || is != c.is || native != c.native {
			t.Errorf("%s: got %v, %v, %v", name, is, native, err)
		}
	}
}
