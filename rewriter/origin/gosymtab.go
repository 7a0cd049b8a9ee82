// The symbol table that Go's linker writes for the runtime, which strip leaves. Source: debug/gosym of
// Go 1.0 and 1.1 (symtab.go); later versions have an empty one.

package origin

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
)

// GoFunction is one function of a Go program.
type GoFunction struct {
	elf.Func
	Name string
}

// maxGoSymtab bounds the table that is read, in bytes; that of a large program of Go 1.0 has a few MiB.
const maxGoSymtab = 1 << 26

// GoFunctions returns the functions that .gosymtab names, in ascending order, each up to the next one.
// Damage ends the table.
func GoFunctions(f *elf.File) (all []GoFunction, err error) {
	s := f.Section(".gosymtab")
	if s == nil || s.Type == elf.SHTNobits || s.Size > maxGoSymtab {
		return nil, nil
	}
	b, err := f.Bytes(s.Off, s.Size)
	if err != nil {
		return nil, err
	}
	wide, later := bytes.CutPrefix(b, []byte("\xfd\xff\xff\xff\x00\x00\x00\x08")) // Go 1.1, for 64 bits
	if later {
		b = wide
	}
	for {
		var g goSymbol
		var ok bool
		if later {
			g, b, ok = g.later(b)
		} else {
			g, b, ok = g.first(b)
		}
		if !ok {
			break
		}
		if t := g.typ &^ 0x20; t == 'T' || t == 'L' {
			all = append(all, GoFunction{elf.Func{Start: g.value}, g.name})
		}
	}
	slices.SortStableFunc(all, func(a, b GoFunction) int { return cmp.Compare(a.Start, b.Start) })
	for i := range all {
		if i+1 < len(all) {
			all[i].End = all[i+1].Start
		}
	}
	return all, nil
}

// goSymbol is one entry of the table.
type goSymbol struct {
	value uint64
	typ   byte // a letter
	name  string
}

// first reads an entry of Go 1.0: the value in 4 bytes, big-endian; the letter, with the highest bit
// set; the name; 4 bytes for the type.
func (g goSymbol) first(b []byte) (goSymbol, []byte, bool) {
	const head, gotype = 5, 4
	if len(b) < head || b[4]&0x80 == 0 {
		return g, nil, false
	}
	g.value, g.typ = uint64(binary.BigEndian.Uint32(b)), b[4]&^0x80
	b, ok := g.named(b[head:])
	if !ok || len(b) < gotype {
		return g, nil, false
	}
	return g, b[gotype:], true
}

// later reads an entry of Go 1.1: the letter in 6 bits, the value in 8 bytes or as a varint, the type
// in 8 bytes if there is one; the name.
func (g goSymbol) later(b []byte) (goSymbol, []byte, bool) {
	const wide, typed, word = 0x40, 0x80, 8
	if len(b) == 0 {
		return g, nil, false
	}
	head := b[0]
	if g.typ = head&0x3f + 'A'; g.typ > 'Z' {
		g.typ += 'a' - 'Z' - 1
	}
	n := word
	if b = b[1:]; head&wide == 0 {
		g.value, n = binary.Uvarint(b)
	} else if len(b) >= word {
		g.value = binary.LittleEndian.Uint64(b)
	}
	if head&typed != 0 {
		n += word
	}
	if n <= 0 || n > len(b) {
		return g, nil, false
	}
	b, ok := g.named(b[n:])
	return g, b, ok
}

// named reads the name. That of a path is an empty one and pairs of bytes up to two zeros.
func (g *goSymbol) named(b []byte) ([]byte, bool) {
	name, b, ok := bytes.Cut(b, []byte{0})
	if !ok {
		return nil, false
	}
	g.name = string(name)
	if g.typ&^0x20 == 'Z' {
		for len(b) >= 2 && (b[0] != 0 || b[1] != 0) {
			b = b[2:]
		}
		if len(b) < 2 {
			return nil, false
		}
		b = b[2:]
	}
	return b, true
}
