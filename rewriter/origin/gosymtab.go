// The symbol table that the linker of Go 1.0 writes for the runtime, and that strip leaves. Source: its debug/gosym
// (symtab.go). Go 1.1, whose table has another format, has no instruction with an address of the page.

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
func GoFunctions(f *elf.File) (all []GoFunction) {
	s := f.Section(".gosymtab")
	if s == nil || s.Type == elf.SHTNobits || s.Size > maxGoSymtab {
		return nil
	}
	b := f.Bytes(s.Off, s.Size)
	for {
		g, typ, rest := goSymbol(b)
		if rest == nil {
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
	return all
}

// goSymbol reads one entry of the table: its value and name, the letter of its type, and the rest of the table, nil after
// damage. An entry is the value in 4 bytes, big-endian; the letter, with the highest bit set; the name; 4 bytes for the Go type.
func goSymbol(b []byte) (g GoFunction, typ byte, rest []byte) {
	const head, letter = 5, 0x80
	if len(b) < head || b[4]&letter == 0 {
		return g, typ, nil
	}
	g.Start, typ = uint64(binary.BigEndian.Uint32(b)), b[4]&^letter
	behind := 4
	name, b, _ := bytes.Cut(b[head:], []byte{0})
	if g.Name = string(name); typ&^0x20 == 'Z' { // a path: an empty name, and pairs of bytes up to two zeros
		for len(b) >= 2 && (b[0] != 0 || b[1] != 0) {
			b = b[2:]
		}
		behind += 2
	}
	if behind > len(b) {
		return g, typ, nil
	}
	return g, typ, b[behind:]
}
