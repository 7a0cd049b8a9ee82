// Segments: their contents, and their surroundings.

package elf

import (
	"slices"
)

// ExecLoad reports whether vaddr is in an executable segment.
func (f *File) ExecLoad(vaddr uint64) bool {
	p := f.Load(vaddr)
	return p != nil && p.Flags&PFX != 0
}

// CodeSize returns the size of the executable segments in the file, in bytes.
func (f *File) CodeSize() (sum uint64) {
	for i := range f.Progs {
		if p := &f.Progs[i]; p.Type == PTLoad && p.Flags&PFX != 0 {
			sum += p.Filesz
		}
	}
	return sum
}

// MaxCover is how often the PT_LOADs of a file may cover it: an ordinary file's cover it once, and without a limit
// a small file could cause much work.
const MaxCover = 4

// CheckLoads returns a *Skip if the segments cover the file more often.
func (f *File) CheckLoads() *Skip {
	var sum uint64
	for i := range f.Progs {
		if p := &f.Progs[i]; p.Type == PTLoad {
			if sum += p.Filesz; sum > MaxCover*f.Size {
				return NewSkip(KindDamaged, "segments cover the file (%d bytes) more than %d times", f.Size, MaxCover)
			}
		}
	}
	return nil
}

// PageSize is the size of a page of memory, in bytes.
const PageSize = 1 << 12

// MapStart returns the lowest vaddr that a loader covers for the PT_LOAD p. The kernel and later ld.so map pages;
// ld.so of glibc 2.3 (elf/dl-load.c, mapstart) uses p_align and would map the head of the file over the bytes
// below.
func (f *File) MapStart(p *Prog) uint64 {
	align := uint64(PageSize)
	if f.Type == TypeDyn && p.Align&(p.Align-1) == 0 {
		align = max(align, p.Align)
	}
	return p.Vaddr &^ (align - 1)
}

// IsInterpreter reports whether the file may be the loader in a PT_INTERP: the kernel enters it beside a program,
// so it can need no other library, and has an entry point (e_entry is 0 without one: ELF gABI, ELF Header).
// Kernels before 6.7 load it with a separate function (fs/binfmt_elf.c, load_elf_interp), which supports one .bss:
// from the highest end of file content to the highest end of memory of all its segments.
func (f *File) IsInterpreter() bool {
	if f.Entry == 0 || f.Type != TypeDyn || f.IsProgram() || f.Dyn(DTNeeded) != nil {
		return false
	}
	p := f.Load(f.Entry)
	return p != nil && p.Flags&PFX != 0
}

// HasBSS reports whether a segment is longer in memory than in the file.
func (f *File) HasBSS() bool {
	return slices.ContainsFunc(f.Progs, func(p Prog) bool { return p.Type == PTLoad && p.Memsz > p.Filesz })
}

// PageUp returns n, rounded up to whole pages.
func PageUp(n uint64) uint64 { return (n + PageSize - 1) &^ (PageSize - 1) }
