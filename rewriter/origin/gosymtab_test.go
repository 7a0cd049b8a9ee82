package origin

import (
	"bytes"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// long reads as a text and zeros behind it.
type long struct{ text []byte }

func (l long) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	if off < int64(len(l.text)) {
		copy(b, l.text[off:])
	}
	return len(b), nil
}

// TestGoSection: a table that a file may have is read up to its end, or to damage.
func TestGoSection(t *testing.T) {
	const symbol = "\x00\x40\x10\x00\xd4f\x00\x00\x00\x00\x00" // a function named f
	for _, c := range []struct {
		name, text string
		typ        uint32
		size       uint64
		n          int
	}{
		{"one", symbol, elf.SHTProgbits, 0, 1},
		{"a short one", symbol[:10], elf.SHTProgbits, 0, 0},
		{"the highest letter", symbol + "\x00\x40\x10\x00\x80f\x00\x00\x00\x00\x00" + symbol, elf.SHTProgbits, 0, 2},
		{"without the bit of a letter", "\x00\x40\x10\x00\x54f\x00\x00\x00\x00\x00", elf.SHTProgbits, 0, 0},
		{"another letter without it", "\x00\x40\x10\x00\x55f\x00\x00\x00\x00\x00" + symbol, elf.SHTProgbits, 0, 0},
		{"no letter", symbol + symbol[:4], elf.SHTProgbits, 0, 1},
		{"a path up to the end", "\x00\x00\x00\x01\xda\x00\x00\x01\x00\x00", elf.SHTProgbits, 0, 0},
		{"not in the file", symbol, elf.SHTNobits, 0, 0},
		{"the longest", symbol, elf.SHTProgbits, maxGoSymtab, 1},
		{"too long", symbol, elf.SHTProgbits, maxGoSymtab + 1, 0},
	} {
		if c.size == 0 {
			c.size = uint64(len(c.text))
		}
		f := &elf.File{R: long{[]byte(c.text)}, Size: 1 << 30, Sections: []elf.Section{{Name: ".gosymtab", Type: c.typ, Size: c.size}}}
		if got := GoFunctions(f); len(got) != c.n || bytes.Contains([]byte(c.name), []byte("one")) && c.n > 0 && got[0].Start != 0x401000 {
			t.Errorf("%s: got %+v, want %d", c.name, got, c.n)
		}
	}
}
