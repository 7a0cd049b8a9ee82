// The requirements of loaders, and of tools that edit files.

package elf

import "fmt"

// Sound returns what would make a loader fail, or read other data than the linker wrote; nil for nothing. Later
// tools break files in this way: patchelf 0.14 puts the program headers over .gnu.hash.
func (f *File) Sound() error {
	table, end := f.PhOff, f.PhOff+uint64(len(f.Progs))*PhdrSize
	overlaps := func(off, n uint64) bool { return off < end && off+n > table || off < EhdrSize }
	const least = 16 // bytes of any of the tables
	for _, t := range []struct {
		tag  int64
		name string
	}{{DTHash, "DT_HASH"}, {DTGNUHash, "DT_GNU_HASH"}, {DTStrtab, "DT_STRTAB"}, {DTSymtab, "DT_SYMTAB"}, {DTRela, "DT_RELA"}, {DTJmprel, "DT_JMPREL"}} {
		d := f.Dyn(t.tag)
		if d == nil || d.Val == 0 {
			continue
		}
		off, ok := f.Offset(d.Val, 1)
		switch {
		case !ok:
			return fmt.Errorf("%s: vaddr %#x is in no segment", t.name, d.Val)
		case overlaps(off, least):
			return fmt.Errorf("%s: vaddr %#x is among the headers", t.name, d.Val)
		}
	}
	for i := range f.Progs {
		p := &f.Progs[i]
		off, _ := f.Offset(p.Vaddr, p.Filesz) // 0 of what is not loaded
		switch {
		case p.Type == PTDynamic && (off != p.Off || overlaps(p.Off, p.Filesz)):
			return fmt.Errorf("PT_DYNAMIC: offset %#x is not what is loaded at vaddr %#x", p.Off, p.Vaddr)
		case p.Type == PTPhdr && (off != f.PhOff || p.Off != f.PhOff):
			return fmt.Errorf("PT_PHDR: the program headers at offset %#x are not loaded at vaddr %#x", f.PhOff, p.Vaddr)
		case p.Type == PTInterp && overlaps(p.Off, p.Filesz):
			return fmt.Errorf("PT_INTERP: offset %#x is among the headers", p.Off)
		case p.Filesz > 0 && !f.InFile(p.Off, p.Filesz): // other bytes are among the headers if e_phnum is damaged
			return fmt.Errorf("segment %d: offset %#x is outside of the file", i, p.Off)
		}
	}
	if f.Type == TypeExec && !f.ExecLoad(f.Entry) {
		return fmt.Errorf("e_entry: no code is at vaddr %#x", f.Entry)
	}
	for _, s := range f.Sections {
		if s.Flags&SHFAlloc != 0 && s.Type != SHTNobits && s.Size > 0 && overlaps(s.Off, s.Size) {
			return fmt.Errorf("section %s at offset %#x is among the headers", s.Name, s.Off)
		}
	}
	return nil
}

// InOrder returns the first section header that is not in the order of the offsets, on which patchelf and dwz
// rely; nil for none.
func (f *File) InOrder() error {
	last := uint64(0)
	for _, s := range f.Sections {
		if s.Type == SHTNobits || s.Type == SHTNull {
			continue
		}
		if s.Off < last {
			return fmt.Errorf("section %s at offset %#x follows one at offset %#x", s.Name, s.Off, last)
		}
		last = s.Off
	}
	return nil
}
