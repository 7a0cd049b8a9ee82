// The options of a search.

package find

import (
	"encoding/binary"
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// Scope limits the search in a file.
type Scope struct {
	// MaxExec is the maximum size of executable segments, in bytes: a larger file is skipped with
	// elf.KindTooMuchCode. 0 means no limit; with a limit, only programs and libraries are examined, not objects
	// and archives.
	MaxExec uint64
	// Marks returns earlier changes to a file; nil if they do not matter.
	Marks func(f *elf.File) Mark
}

// Mark is the facts about an earlier patch of a file.
type Mark struct {
	Version string   // of the format, "" for none
	Roots   []uint64 // File.Roots
	Fix     Fix      // that the file has, "" for none
	Skip    *Skip    // why it is skipped; nil if it is not
}

// within returns nil if the segments do not cover the file too often, and the executable ones are within the
// limit.
func (o *Scope) within(f *File) *Skip {
	if skip := f.CheckLoads(); skip != nil || o.MaxExec == 0 || f.CodeSize() <= o.MaxExec {
		return skip
	}
	return elf.NewSkip(elf.KindTooMuchCode, "executable segments of more than %d bytes", o.MaxExec)
}

// Nameless reports whether an x86-64 ELF file of size bytes certainly has no site: it can be loaded at any
// address, so no displacement leads to the page, and it nowhere has, aligned or not, the lower half of an address
// of the page, or an instruction with the negative of one. It searches bytes, through buf, without parsing the
// format except e_type.
func Nameless(r io.ReaderAt, size int64, buf []byte) (bool, error) {
	const etype = 16
	var head [elf.EhdrSize]byte
	if size < elf.EhdrSize {
		return false, nil
	}
	if _, err := r.ReadAt(head[:], 0); err != nil || binary.LittleEndian.Uint16(head[etype:]) == elf.TypeExec {
		return false, err
	}
	named, err := Named(r, size, buf)
	return !named, err
}

// Named is the search of Nameless, in a file of any format.
func Named(r io.ReaderAt, size int64, buf []byte) (bool, error) {
	const overlap = 10 // the opcode of an instruction is up to nine bytes before the pair
	for at := int64(0); ; at += int64(len(buf)) - overlap {
		b := buf[:min(int64(len(buf)), size-at)]
		if _, err := r.ReadAt(b, at); err != nil {
			return false, err
		}
		for i := range elf.Pairs(b, 2, len(b), pairs[:]) {
			_, subtracts := negated(b, i)
			if lowerHalf(b, i) && b[i+1] == pagePair>>8 || subtracts {
				return true, nil
			}
		}
		if at+int64(len(b)) == size {
			return false, nil
		}
	}
}
