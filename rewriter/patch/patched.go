// Files that vfix has patched: how they are recognized, what their injected page has, and when one is broken.

package patch

import (
	"bytes"
	"encoding/binary"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// pageOf returns the first page of a segment.
func pageOf(code []byte, h hooks, segment uint64) []byte {
	b := make([]byte, elf.PageSize)
	copy(b, code)
	layout := shim.Injected()
	fill := func(hole uint32, target uint64) {
		if target != 0 {
			binary.LittleEndian.PutUint32(b[hole:], uint32(target-(segment+uint64(hole)+4)))
		}
	}
	fill(layout.EntryHole, h.entry)
	fill(layout.InitHole, h.init)
	return b
}

// patchedFile is the data of a file that this vfix has patched.
type patchedFile struct {
	segment elf.Prog
	hooks   hooks
	fix     find.Fix // that the file has, "" for none
}

// patched recognizes a file that this vfix has patched, by all of its code; nil for other files.
func patched(f *elf.File) *patchedFile {
	segment, _ := injected(f)
	if segment == nil || segment.Filesz != shim.SegmentSize {
		return nil
	}
	page := f.Bytes(segment.Off, elf.PageSize)
	layout := shim.Injected()
	holes := func(b []byte) []byte {
		b = bytes.Clone(b)
		clear(b[layout.EntryHole:][:4])
		clear(b[layout.InitHole:][:4])
		return b
	}
	for _, fix := range [...]find.Fix{"", find.JavaCgroups} {
		p := &patchedFile{segment: *segment, fix: fix}
		code := codeFor(fix)
		if !bytes.Equal(holes(code), holes(page[:len(code)])) {
			continue
		}
		target := func(hole uint32) uint64 {
			if to := uint64(hole) + 4 + elf.Signed(page[hole:]); to >= uint64(len(code)) {
				return segment.Vaddr + to
			}
			return 0
		}
		p.hooks = hooks{entry: target(layout.EntryHole), init: target(layout.InitHole)}
		return p
	}
	return nil
}

// injected returns the segment that vfix injected and the version of its format; nil and "" if there is none. The
// version is the last byte of the magic.
func injected(f *elf.File) (segment *elf.Prog, version string) {
	magic := shim.Magic()
	name := magic[:len(magic)-1]
	for i := range f.Progs {
		p := &f.Progs[i]
		code := p.Type == elf.PTLoad && p.Flags&elf.PFX != 0
		if code && bytes.HasPrefix(f.Bytes(p.Off, uint64(len(magic))), name) {
			return p, string(f.Bytes(p.Off+uint64(len(name)), 1))
		}
	}
	return nil, ""
}

// lost reports whether the sections are those of a file that vfix patched: without an injected segment, a later tool
// has removed it or changed what it has. Files of debug symbols have a section without content for it.
func lost(f *elf.File) bool {
	if s := f.Section(injectedName); s != nil {
		return s.Type == elf.SHTProgbits
	}
	return f.Section(movedName) != nil
}

// unsound returns what has broken a file with an injected segment; nil for nothing.
func unsound(f *elf.File, segment *elf.Prog, was *patchedFile) *elf.Skip {
	broken := func(format string, a ...any) *elf.Skip {
		return elf.NewSkip(elf.KindBroken, format, a...)
	}
	switch {
	case segment.Flags != elf.PFR|elf.PFX || segment.Memsz != shim.SegmentSize || segment.Filesz != shim.SegmentSize:
		return broken("injected segment at vaddr %#x: flags %#x, filesz %#x, memsz %#x", segment.Vaddr, segment.Flags, segment.Filesz, segment.Memsz)
	case was == nil:
		return broken("the code at vaddr %#x is not what vfix injects", segment.Vaddr)
	}
	for _, v := range []uint64{was.hooks.entry, was.hooks.init} {
		if v != 0 && !f.ExecLoad(v) {
			return broken("the hook continues at vaddr %#x, which has no code", v)
		}
	}
	if err := f.Sound(); err != nil {
		return broken("%v", err)
	}
	return nil
}
