// Scans one relocatable object.

package find

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// scanObject finds the references of one object, with what is left of the budget.
func scanObject(r io.ReaderAt, size int64, left *budget) (*Report, error) {
	rep, err := scanLinked(r, size, left)
	if skip, err := elf.AsSkip(err); skip != nil || err != nil {
		return &Report{Skipped: skip}, err
	}
	return rep, nil
}

func scanLinked(r io.ReaderAt, size int64, left *budget) (*Report, error) {
	e, err := elf.ParseObject(r, size)
	if err != nil {
		return nil, err
	}
	rep := &Report{ExecBytes: int64(e.CodeSize())}
	// Few objects have bytes that may be an address of the page, or a displacement to it.
	found := false
	e.Chunks(&elf.Prog{Filesz: e.Size}, func(b []byte, _ uint64, _, _ int) { found = found || hasPage(b) })
	if found {
		f := &File{File: e, budget: left}
		if err := e.Link(); err != nil {
			return nil, err
		}
		rep = scanELF(f, nil)
		for i := range rep.Sites {
			rep.Sites[i].Object = f
		}
		rep.RawSignals, rep.File = false, nil
	}
	if e.Err() != nil {
		return nil, e.Err()
	}
	rep.Object, rep.Static, rep.Size = true, false, size
	return rep, nil
}

// hasPage searches for the lower half of an address of the page, or of an address 4 bytes before, which
// relocations of a call have.
func hasPage(b []byte) bool {
	const behind = 4 // the displacement's own bytes
	for i := range elf.Pairs(b, 2, len(b), []uint16{pagePair, pagePair - 1}) {
		at := elf.Signed(b[i-2:])
		_, call := FunctionAt(at + behind)
		if _, ok := FunctionAt(at); ok || call {
			return true
		}
	}
	return false
}
