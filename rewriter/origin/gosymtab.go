// The symbol table that Go's linker writes for the runtime, and that strip leaves. Source: debug/gosym of Go 1.0
// and 1.1 (symtab.go); it is empty in later versions.

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

// maxGoSymtab is the maximum size of the table, in bytes; a large program of Go 1.0 has a few MiB.
const maxGoSymtab = 1 << 26

// GoFunctions returns the functions in .gosymtab, in ascending order, each up to the next one. Damage ends the
// table.
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
		g, typ, rest, ok := goSymbol(b, later)
		if !ok {
			break
		}
		if b = rest; typ&^0x20 == 'T' || typ&^0x20 == 'L' {
			all = append(all, g)
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

// goSymbol reads one entry of the table: its value and name, the letter of its type, and the rest of the table.
//
// Go 1.0: the value in 4 bytes, big-endian; the letter, with the highest bit set; the name; 4 bytes for the Go type.
// Go 1.1: the letter in 6 bits, the value in 8 bytes or as a varint, the Go type in 8 bytes if there is one; the name.
func goSymbol(b []byte, later bool) (g GoFunction, typ byte, rest []byte, ok bool) {
	const wide, typed, word, head, gotype = 0x40, 0x80, 8, 5, 4
	behind := 0
	switch {
	case !later && len(b) >= head && b[4]&0x80 != 0:
		g.Start, typ, behind = uint64(binary.BigEndian.Uint32(b)), b[4]&^0x80, gotype
		b = b[head:]
	case later && len(b) > 0:
		flags, n := b[0], word
		if typ = flags&0x3f + 'A'; typ > 'Z' {
			typ += 'a' - 'Z' - 1
		}
		if b = b[1:]; flags&wide == 0 {
			g.Start, n = binary.Uvarint(b)
		} else if len(b) >= word {
			g.Start = binary.LittleEndian.Uint64(b)
		}
		if flags&typed != 0 {
			n += word
		}
		if n <= 0 || n > len(b) {
			return g, 0, nil, false
		}
		b = b[n:]
	default:
		return g, 0, nil, false
	}
	name, b, ok := bytes.Cut(b, []byte{0})
	if g.Name = string(name); typ&^0x20 == 'Z' { // a path: an empty name, and pairs of bytes up to two zeros
		for len(b) >= 2 && (b[0] != 0 || b[1] != 0) {
			b = b[2:]
		}
		behind += 2
	}
	if !ok || behind > len(b) {
		return g, 0, nil, false
	}
	return g, typ, b[behind:], true
}
