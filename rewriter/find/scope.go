// The options of a search.

package find

import (
	"encoding/binary"
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// Scope is what of a file is searched.
type Scope struct {
	// MaxExec bounds the search: of a file with more bytes in executable segments nothing is searched, and
	// its report is skipped for elf.KindTooMuchCode. 0 means no bound; with one, only what runs is examined, no
	// object and no archive.
	MaxExec uint64
	// Marks says what was done to a file before; nil where nobody asks.
	Marks func(f *elf.File) (Mark, error)
}

// Mark is what is known of a file that was patched before.
type Mark struct {
	Version string   // of the format, "" for none
	Roots   []uint64 // File.Roots
	Fix     Fix      // that it has, "" for none
	Skip    *Skip    // why it is passed over; nil if it is not
}

// within is nil where the segments do not cover the file too often, and the executable ones are not larger than the
// bound.
func (o *Scope) within(f *File) *Skip {
	if skip := f.CheckLoads(); skip != nil || o.MaxExec == 0 {
		return skip
	}
	var sum uint64
	for i := range f.Progs {
		if p := &f.Progs[i]; p.Type == elf.PTLoad && p.Flags&elf.PFX != 0 {
			if sum += p.Filesz; sum > o.MaxExec {
				return elf.NewSkip(elf.KindTooMuchCode, "executable segments of more than %d bytes", o.MaxExec)
			}
		}
	}
	return nil
}

// Nameless reports whether a file of size bytes, an x86-64 ELF file, is sure to have no site: it can be loaded
// anywhere, so that no distance leads to the page, and nowhere in it, aligned or not, is the lower half of an
// address of the page, or what looks like an instruction with the negative of one. It is a search for bytes, with
// no look at the format except e_type, through buf.
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

// Named is the search of Nameless: in a file of any format.
func Named(r io.ReaderAt, size int64, buf []byte) (bool, error) {
	const overlap = 10 // an instruction's opcode is up to nine bytes before the pair
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
