// Looking things up in a checked ELF file: what reads outside of it is an error, or nothing.

package rewriter

import (
	"encoding/binary"
	"fmt"
	"io"
)

// readAt fills b from offset off; the caller has checked the range.
func (f *elfFile) readAt(b []byte, off uint64) error {
	n, err := f.r.ReadAt(b, int64(off))
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at offset %d: %w", len(b), off, err)
}

// inFile reports whether [off, off+n) lies inside the file, without overflow.
func (f *elfFile) inFile(off, n uint64) bool { return off <= f.size && n <= f.size-off }

// bytes returns n bytes at offset off, which must lie inside the file.
func (f *elfFile) bytes(off, n uint64) ([]byte, error) {
	if !f.inFile(off, n) {
		return nil, damaged("%d bytes at offset %#x end beyond the file (%d bytes)", n, off, f.size)
	}
	b := make([]byte, n)
	return b, f.readAt(b, off)
}

// prog returns the first program header of type typ, or nil.
func (f *elfFile) prog(typ uint32) *prog {
	for i := range f.progs {
		if f.progs[i].typ == typ {
			return &f.progs[i]
		}
	}
	return nil
}

// section returns the first section with the name, or nil.
func (f *elfFile) section(name string) *section {
	for i := range f.sections {
		if f.sections[i].name == name {
			return &f.sections[i]
		}
	}
	return nil
}

// isProgram reports whether the kernel or a user can start the file: a PIE or a library
// with an interpreter (libc.so.6) included.
func (f *elfFile) isProgram() bool {
	if f.typ == etExec || f.prog(ptInterp) != nil {
		return true
	}
	flags := f.dyn(dtFlags1)
	return flags != nil && flags.val&df1PIE != 0
}

// dyn returns the first dynamic entry with the tag, or nil.
func (f *elfFile) dyn(tag int64) *dyn {
	for i := range f.dynamic {
		if f.dynamic[i].tag == tag {
			return &f.dynamic[i]
		}
	}
	return nil
}

// load returns the PT_LOAD whose file content holds vaddr, or nil.
func (f *elfFile) load(vaddr uint64) *prog {
	for i := range f.progs {
		p := &f.progs[i]
		if p.typ == ptLoad && vaddr >= p.vaddr && vaddr-p.vaddr < p.filesz {
			return p
		}
	}
	return nil
}

// mappings returns how many PT_LOADs have the byte at an offset of the file.
func (f *elfFile) mappings(off uint64) (n int) {
	for i := range f.progs {
		if p := &f.progs[i]; p.typ == ptLoad && off >= p.off && off-p.off < p.filesz {
			n++
		}
	}
	return n
}

// offset returns where in the file the n bytes at vaddr are; ok is false where they are
// not all in the file content of one segment.
func (f *elfFile) offset(vaddr, n uint64) (off uint64, ok bool) {
	p := f.load(vaddr)
	if p == nil || p.filesz-(vaddr-p.vaddr) < n {
		return 0, false
	}
	return p.off + (vaddr - p.vaddr), true
}

// mem returns up to n bytes at vaddr: fewer where the segment's file content ends.
func (f *elfFile) mem(vaddr, n uint64) ([]byte, error) {
	p := f.load(vaddr)
	if p == nil {
		return nil, nil
	}
	d := vaddr - p.vaddr
	return f.bytes(p.off+d, min(n, p.filesz-d))
}

// word returns the 8-byte word at vaddr.
func (f *elfFile) word(vaddr uint64) (uint64, bool) {
	b, err := f.mem(vaddr, 8)
	if err != nil || len(b) < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// cString returns the NUL-terminated string at i, "" where there is none.
func cString(b []byte, i uint64) string {
	if i >= uint64(len(b)) {
		return ""
	}
	b = b[i:]
	for j, c := range b {
		if c == 0 {
			return string(b[:j])
		}
	}
	return ""
}
