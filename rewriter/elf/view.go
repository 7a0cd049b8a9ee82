// Looking things up in a checked ELF file: what reads outside of it is an error, or nothing.

package elf

import (
	"encoding/binary"
	"fmt"
	"io"
)

// ReadAt fills b from offset off; the caller has checked the range.
func (f *File) ReadAt(b []byte, off uint64) error {
	n, err := f.R.ReadAt(b, int64(off))
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at offset %d: %w", len(b), off, err)
}

// InFile reports whether [off, off+n) lies inside the file, without overflow.
func (f *File) InFile(off, n uint64) bool { return off <= f.Size && n <= f.Size-off }

// Bytes returns n bytes at offset off, which must lie inside the file.
func (f *File) Bytes(off, n uint64) ([]byte, error) {
	if !f.InFile(off, n) {
		return nil, f.beyond(off, n)
	}
	b := make([]byte, n)
	return b, f.ReadAt(b, off)
}

// peek is Bytes for who does not change them.
func (f *File) peek(off, n uint64) ([]byte, error) {
	if !f.InFile(off, n) {
		return nil, f.beyond(off, n)
	}
	return f.view(nil, off, n)
}

func (f *File) beyond(off, n uint64) error {
	return Damaged("%d bytes at offset %#x end beyond the file (%d bytes)", n, off, f.Size)
}

// Prog returns the first program header of type typ, or nil.
func (f *File) Prog(typ uint32) *Prog {
	for i := range f.Progs {
		if f.Progs[i].Type == typ {
			return &f.Progs[i]
		}
	}
	return nil
}

// Section returns the first section with the name, or nil.
func (f *File) Section(name string) *Section {
	for i := range f.Sections {
		if f.Sections[i].Name == name {
			return &f.Sections[i]
		}
	}
	return nil
}

// IsProgram reports whether the kernel or a user can start the file: a PIE or a library
// with an interpreter (libc.so.6) included.
func (f *File) IsProgram() bool {
	if f.Type == TypeExec || f.Prog(PTInterp) != nil {
		return true
	}
	flags := f.Dyn(DTFlags1)
	return flags != nil && flags.Val&DF1PIE != 0
}

// Dyn returns the first dynamic entry with the tag, or nil.
func (f *File) Dyn(tag int64) *Dyn {
	for i := range f.Dynamic {
		if f.Dynamic[i].Tag == tag {
			return &f.Dynamic[i]
		}
	}
	return nil
}

// Load returns the PT_LOAD whose file content holds vaddr, or nil.
func (f *File) Load(vaddr uint64) *Prog {
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type == PTLoad && vaddr >= p.Vaddr && vaddr-p.Vaddr < p.Filesz {
			return p
		}
	}
	return nil
}

// Mappings returns how many PT_LOADs have the byte at an offset of the file.
func (f *File) Mappings(off uint64) (n int) {
	for i := range f.Progs {
		if p := &f.Progs[i]; p.Type == PTLoad && off >= p.Off && off-p.Off < p.Filesz {
			n++
		}
	}
	return n
}

// Offset returns where in the file the n bytes at vaddr are; ok is false if they are
// not all in the file content of one segment.
func (f *File) Offset(vaddr, n uint64) (off uint64, ok bool) {
	p := f.Load(vaddr)
	if p == nil || p.Filesz-(vaddr-p.Vaddr) < n {
		return 0, false
	}
	return p.Off + (vaddr - p.Vaddr), true
}

// Mem returns up to n bytes at vaddr: fewer where the segment's file content ends.
func (f *File) Mem(vaddr, n uint64) ([]byte, error) {
	p := f.Load(vaddr)
	if p == nil {
		return nil, nil
	}
	d := vaddr - p.Vaddr
	return f.Bytes(p.Off+d, min(n, p.Filesz-d))
}

// peekMem is Mem for who does not change the bytes.
func (f *File) peekMem(vaddr, n uint64) ([]byte, error) {
	p := f.Load(vaddr)
	if p == nil {
		return nil, nil
	}
	d := vaddr - p.Vaddr
	return f.peek(p.Off+d, min(n, p.Filesz-d))
}

// Word returns the 8-byte word at vaddr.
func (f *File) Word(vaddr uint64) (uint64, bool) {
	b, err := f.Mem(vaddr, 8)
	if err != nil || len(b) < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// cString returns the NUL-terminated string at i, or "".
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

// Static reports whether the file is a program that no interpreter loads. A shared library
// has no interpreter either: only a static-pie has DF_1_PIE, or, from linkers before that
// flag, the DT_DEBUG that linkers write into programs alone.
func (f *File) Static() bool {
	if f.Prog(PTInterp) != nil {
		return false
	}
	if f.Type == TypeExec {
		return true
	}
	if d := f.Dyn(DTFlags1); d != nil && d.Val&DF1PIE != 0 {
		return true
	}
	return f.Entry != 0 && f.Dyn(DTDebug) != nil && f.Dyn(DTSoname) == nil
}

// Soname returns the DT_SONAME of a shared library.
func (f *File) Soname() string {
	so, str := f.Dyn(DTSoname), f.Dyn(DTStrtab)
	if so == nil || str == nil {
		return ""
	}
	b, err := f.Mem(str.Val+so.Val, maxName)
	if err != nil {
		return ""
	}
	return cString(b, 0)
}
