// Look-ups in a checked ELF file; a read outside of it returns nothing.

package elf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// Err returns the first failed read of the file, from which on all bytes are zeros and no result counts; nil if none
// has failed.
func (f *File) Err() error { return f.failed }

// ReadAt implements io.ReaderAt; the caller has checked the range.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	n, err := 0, f.failed
	if err == nil {
		n, err = f.R.ReadAt(b, off)
	}
	if n < len(b) && f.failed == nil {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		f.failed = fmt.Errorf("read %d bytes at offset %d: %w", len(b), off, err)
	}
	clear(b[n:])
	return n, f.failed
}

// InFile reports whether [off, off+n) is inside the file, without overflow.
func (f *File) InFile(off, n uint64) bool { return off <= f.Size && n <= f.Size-off }

// Bytes returns n bytes at offset off; nil if they are not all in the file. The caller must not change them.
func (f *File) Bytes(off, n uint64) []byte {
	if !f.InFile(off, n) {
		return nil
	}
	return f.view(nil, off, n)
}

// records visits n entries of size bytes from offset off on, with the offset of each, up to the end of the file. visit
// must not change or keep the bytes.
func (f *File) records(off, n uint64, size int, visit func(off uint64, e []byte)) {
	buf := buffers.Get().(*[ChunkSize]byte)
	defer buffers.Put(buf)
	for n = min(n*uint64(size), f.Size-min(off, f.Size)); n > 0; {
		m := min(uint64(ChunkSize/size*size), n)
		b := f.view(buf[:], off, m)
		if f.failed != nil {
			return
		}
		n -= m
		for ; len(b) >= size; b, off = b[size:], off+uint64(size) {
			visit(off, b[:size])
		}
	}
}

// first returns the first element for which is returns true, or nil.
func first[T any](all []T, is func(*T) bool) *T {
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// Prog returns the first program header of type typ, or nil.
func (f *File) Prog(typ uint32) *Prog {
	return first(f.Progs, func(p *Prog) bool { return p.Type == typ })
}

// Section returns the first section with the name, or nil.
func (f *File) Section(name string) *Section {
	return first(f.Sections, func(s *Section) bool { return s.Name == name })
}

// Dyn returns the first dynamic entry with the tag, or nil.
func (f *File) Dyn(tag int64) *Dyn {
	return first(f.Dynamic, func(d *Dyn) bool { return d.Tag == tag })
}

// Range returns the vaddr and the size in bytes of a table in two dynamic entries; 0 without them.
func (f *File) Range(tag, sizeTag int64) (vaddr, size uint64) {
	at, n := f.Dyn(tag), f.Dyn(sizeTag)
	if at == nil || n == nil {
		return vaddr, size
	}
	return at.Val, n.Val
}

// IsProgram reports whether the kernel or a user can start the file, including a PIE and a library with an
// interpreter (libc.so.6).
func (f *File) IsProgram() bool { return f.Type == TypeExec || f.Prog(PTInterp) != nil || f.isPIE() }

func (f *File) isPIE() bool {
	flags := f.Dyn(DTFlags1)
	return flags != nil && flags.Val&DF1PIE != 0
}

// Load returns the PT_LOAD whose file content has vaddr, or nil.
func (f *File) Load(vaddr uint64) *Prog {
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type == PTLoad && vaddr-p.Vaddr < p.Filesz {
			return p
		}
	}
	return nil
}

// Offset returns the offset in the file of the n bytes at vaddr; ok is false if they are not all in the file
// content of one segment.
func (f *File) Offset(vaddr, n uint64) (off uint64, ok bool) {
	p := f.Load(vaddr)
	if p == nil || p.Filesz-(vaddr-p.Vaddr) < n {
		return 0, false
	}
	return p.Off + (vaddr - p.Vaddr), true
}

// Mem returns up to n bytes at vaddr, fewer at the end of the segment's file content. The caller must not change them.
func (f *File) Mem(vaddr, n uint64) []byte {
	p := f.Load(vaddr)
	if p == nil {
		return nil
	}
	d := vaddr - p.Vaddr
	return f.Bytes(p.Off+d, min(n, p.Filesz-d))
}

// Word returns the 8-byte word at vaddr.
func (f *File) Word(vaddr uint64) (uint64, bool) {
	b := f.Mem(vaddr, 8)
	if len(b) < 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// cString returns the NUL-terminated string at i, or "".
func cString(b []byte, i uint64) string {
	text, _, ended := bytes.Cut(b[min(i, uint64(len(b))):], []byte{0})
	if !ended {
		return ""
	}
	return string(text)
}

// Static reports whether the file is a program without an interpreter. A shared library also has no interpreter:
// only a static-pie has DF_1_PIE, or, from linkers before that flag, the DT_DEBUG that linkers add only to
// programs.
func (f *File) Static() bool {
	return f.Prog(PTInterp) == nil && (f.Type == TypeExec || f.isPIE() || f.Entry != 0 && f.Dyn(DTDebug) != nil && f.Dyn(DTSoname) == nil)
}
