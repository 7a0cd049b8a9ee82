// Scanning one relocatable object.

package find

import (
	"encoding/binary"
	"io"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
)

// scanObject finds the references of one object. budget is how many instructions may be decoded.
func scanObject(r io.ReaderAt, size int64, budget *int) (*Report, error) {
	rep, err := scanLinked(r, size, budget)
	if skip, ok := err.(*Skip); ok {
		return &Report{Skipped: skip}, nil
	}
	return rep, err
}

func scanLinked(r io.ReaderAt, size int64, budget *int) (*Report, error) {
	e, err := elf.ParseObject(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{File: e, budget: budget}
	rep := &Report{}
	if found, err := f.mayCall(); err != nil || !found {
		for i := range f.Progs {
			if f.Progs[i].Flags&elf.PFX != 0 {
				rep.ExecBytes += int64(f.Progs[i].Filesz)
			}
		}
		rep.Object, rep.Size = true, size
		return rep, err
	}
	if err := f.Link(); err != nil {
		return nil, err
	}
	if rep, err = scanELF(f); err != nil {
		return nil, err
	}
	for i := range rep.Sites {
		rep.Sites[i].Object = f
	}
	rep.Object, rep.Static, rep.RawSignals, rep.File, rep.Size = true, false, false, nil, size
	return rep, nil
}

// mayCall reports whether there is anything in the object that may be an address of the page, or a
// displacement to it.
func (f *File) mayCall() (bool, error) {
	where := slices.Clone(f.Progs)
	for _, s := range f.Relocations() {
		where = append(where, elf.Prog{Off: s.Off, Filesz: s.Size})
	}
	total := uint64(0)
	for i := range where {
		if total += where[i].Filesz; total > elf.MaxCover*f.Size {
			return false, elf.Damaged("sections cover the file (%d bytes) more than %d times", f.Size, elf.MaxCover)
		}
	}
	found := false
	for i := range where {
		err := f.Chunks(&where[i], func(b []byte, _ uint64, _, _ int) { found = found || hasPage(b) })
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// hasPage looks for the lower half of an address of the page, or of one 4 bytes before: relocations
// of a call have that.
func hasPage(b []byte) bool {
	const behind = 4 // the displacement's own bytes
	for i := range elf.Pairs(b, 2, len(b), []uint16{pagePair, pagePair - 1}) {
		at := uint64(int64(int32(binary.LittleEndian.Uint32(b[i-2:]))))
		if _, ok := FunctionAt(at); ok {
			return true
		}
		if _, ok := FunctionAt(at + behind); ok {
			return true
		}
	}
	return false
}
