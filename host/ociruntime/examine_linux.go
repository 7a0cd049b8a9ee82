// One file: whether it calls the page, and how much of it may be read to decide that.

package ociruntime

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	examiner "vfix.dev/vfix/host/oldexaminer"
	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
)

// The conditions for the examination of a file.
const (
	// minELF is the size of one program header that begins after byte 0, in bytes: the kernel's minimum
	// (fs/binfmt_elf.c, load_elf_phdrs). The ELF header may overlap it, and end behind the file.
	minELF = 1 + 56
	// maxFile is the largest file that is examined.
	maxFile = 4 << 30
	// maxSparse is the largest file that may consist mostly of holes.
	maxSparse = 256 << 20
)

// examine examines one file. h is nil if the file needs no patch; err means that it is an ELF file whose content
// is not known; loose reports that it may change, or has changed, without a trace.
func (p *part) examine(e *rootfs.Entry, id rootfs.Identity) (h *legacyFile, loose bool, err error) {
	f, err := e.Open()
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if f.ID() != id {
		return nil, false, rootfs.ErrChanged
	}
	loose = id.Unsettled(p.now) || p.clean && (!f.Dates() || !p.root.Within(id.Dev))
	h, err = examineFile(p.by, f, p.buf)
	return h, loose, err
}

// searchSize is the size of one searched piece of a file, in bytes: it fits into a core's second-level cache.
const searchSize = 256 << 10

// examineFile examines an open file; buf is for the search.
func examineFile(by *examiner.Group, f *rootfs.File, buf []byte) (*legacyFile, error) {
	program, native, err := isProgram(f)
	if err != nil || !program {
		return nil, err
	}
	if err := readable(f); err != nil {
		return nil, err
	}
	if !native { // x32 is 64-bit code, and a 32-bit program may call 64-bit code
		named, err := find.Named(f, f.Stat.Size, buf)
		if err == nil && named {
			err = fmt.Errorf("%w: it names the vsyscall page, and is not a 64-bit ELF file for x86-64", examiner.ErrTooMuch)
		}
		return nil, errors.Join(err, f.Unchanged())
	}
	found, err := by.Examine(f, f.Stat.Size, buf)
	if err != nil || found == (examiner.Finding{}) {
		return nil, errors.Join(err, f.Unchanged())
	}
	h := &legacyFile{ID: f.ID(), Finding: found}
	if h.SHA256, err = sum(f); err != nil {
		return nil, err
	}
	return h, f.Unchanged()
}

// isProgram reports whether the kernel or a loader may accept a file as a program or library, by the same bytes of
// its head: the kernel by the magic and no other byte of e_ident (fs/binfmt_elf.c), musl's loader by e_type alone
// (ldso/dynlink.c, map_library). native reports a 64-bit program or an object file: x32 has other headers.
func isProgram(f io.ReaderAt) (is, native bool, err error) {
	const (
		etype, machine, phentsize = 16, 18, 54 // offsets of Elf64_Ehdr
		x8664, rel, phdr          = 62, 1, 56  // EM_X86_64, ET_REL, the size of Elf64_Phdr
	)
	var b [phentsize + 2]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		if err == io.EOF {
			return false, false, nil
		}
		return false, false, err
	}
	member := func(at int) uint16 { return binary.LittleEndian.Uint16(b[at:]) }
	magic := string(b[:4]) == "\x7fELF"
	return magic || member(etype) == elf.TypeExec || member(etype) == elf.TypeDyn,
		magic && member(machine) == x8664 && (member(phentsize) == phdr || member(etype) == rel), nil
}

// readable refuses files that cost more to read than any program.
func readable(f *rootfs.File) error {
	switch {
	case f.Stat.Size > maxFile:
		return fmt.Errorf("%d bytes, %w: at most %d", f.Stat.Size, examiner.ErrTooMuch, int64(maxFile))
	case f.Stat.Size > maxSparse && f.Sparse():
		return fmt.Errorf("%d bytes, %w: most of them are holes", f.Stat.Size, examiner.ErrTooMuch)
	}
	return nil
}

func sum(f *rootfs.File) ([]byte, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, f.Stat.Size)); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
