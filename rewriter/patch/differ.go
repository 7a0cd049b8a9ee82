// An unplanned difference, and the code around it in both files.

package patch

import (
	"fmt"
	"io"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/x86"
)

// UnplannedError is a byte that differs from the plan for the file before.
type UnplannedError struct {
	Offset    int64
	Got, Want byte
}

func (e *UnplannedError) Error() string {
	return fmt.Sprintf("offset %#x: got byte %#02x, want %#02x: not a planned change", e.Offset, e.Got, e.Want)
}

// ListingAt disassembles the code around an offset in both files, from the start of the function if that is near,
// else from the offset. before determines the addresses. The listing is empty if before has no code at that
// offset; an error means that a read failed.
func ListingAt(before io.ReaderAt, beforeSize int64, after io.ReaderAt, afterSize, offset int64) (find.Explanation, error) {
	f, err := find.Parse(before, beforeSize)
	if skip, err := elf.AsSkip(err); skip != nil || err != nil {
		return find.Explanation{}, err
	}
	code := f.CodeAt(uint64(offset) + 1)
	if code == nil {
		return find.Explanation{}, nil
	}
	vaddr := code.Vaddr + uint64(offset) - code.Off
	start := f.Start(vaddr, explainBefore)
	b := f.Mem(start, vaddr-start+explainAfter)
	off, _ := f.Offset(start, uint64(len(b)))
	if f.Err() != nil {
		return find.Explanation{}, f.Err()
	}
	a := make([]byte, max(0, min(int64(len(b)), afterSize-int64(off))))
	if _, err := after.ReadAt(a, int64(off)); err != nil && err != io.EOF {
		return find.Explanation{}, err
	}
	was, is := x86.Listing(b[:len(a)], a, start)
	return find.Explanation{Before: was, After: is}, nil
}
