// Files that vfix has patched: how they are recognized, what their injected page has, and how they are patched
// further in place.

package patch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// The first page of the segment has the code, with its holes filled; the record, 8-byte aligned; and, at its end,
// the data for unwinders and the code for some sites. The record has the number of sites, the size of what is at the
// end in bytes (2 bytes each), and for each site the distance from the segment's vaddr to the vaddr behind its new target (4 bytes). All
// are little-endian.
const (
	recordAlign = 8
	recordHead  = 4
	recordSite  = 4
)

// recordAt returns the offset in the page of the record after size bytes of code.
func recordAt(size int) int { return (size + recordAlign - 1) &^ (recordAlign - 1) }

// unwindRoom returns the space in the page for unwinders' data, in bytes, with n sites and either code.
func unwindRoom(n int) int {
	at := max(len(shim.Code()), len(shim.JavaCode()))
	return elf.PageSize - recordAt(at) - recordHead - n*recordSite
}

// pageOf returns the first page of a segment. Sites that do not fit are not in the record.
func pageOf(code []byte, h hooks, segment uint64, sites []uint64, tail []byte) []byte {
	b := make([]byte, elf.PageSize)
	at := recordAt(copy(b, code))
	layout, le := shim.Injected(), binary.LittleEndian
	fill := func(hole uint32, target uint64) {
		if target != 0 {
			le.PutUint32(b[hole:], uint32(target-(segment+uint64(hole)+4)))
		}
	}
	fill(layout.EntryHole, h.entry)
	fill(layout.InitHole, h.init)
	copy(b[elf.PageSize-len(tail):], tail)
	sites = sites[:min(len(sites), max(0, (elf.PageSize-len(tail)-at-recordHead)/recordSite))]
	le.PutUint16(b[at:], uint16(len(sites)))
	le.PutUint16(b[at+2:], uint16(len(tail)))
	for i, v := range sites {
		le.PutUint32(b[at+recordHead+i*recordSite:], uint32(v-segment))
	}
	return b
}

// patchedFile is the data of a file that this vfix has patched.
type patchedFile struct {
	segment elf.Prog
	hooks   hooks
	fix     find.Fix // that the file has, "" for none
	sites   []uint64 // the vaddrs behind the new targets
	tail    []byte   // code for some sites, and data for unwinders
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
		p.hooks.found = p.hooks.entry != 0 || p.hooks.init != 0
		le := binary.LittleEndian
		r := page[recordAt(len(code)):]
		n, tail := int(le.Uint16(r)), int(le.Uint16(r[2:]))
		if r = r[recordHead:]; n*recordSite+tail > len(r) {
			return nil
		}
		for i := range n {
			p.sites = append(p.sites, segment.Vaddr+elf.Signed(r[i*recordSite:]))
		}
		p.tail = r[len(r)-tail:]
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
		if b := f.Bytes(p.Off, uint64(len(magic))); p.Type == elf.PTLoad && p.Flags&elf.PFX != 0 && bytes.HasPrefix(b, name) {
			return p, string(b[len(name):])
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

// extend completes the plan for a file that is patched already: for sites that were left, or a fix that it did not
// have.
func (p *Plan) extend() {
	was := p.file.was
	if p.Empty() {
		return
	}
	page := pageOf(codeFor(cmp.Or(was.fix, p.fix())), was.hooks, was.segment.Vaddr, append(slices.Clip(was.sites), p.targets()...), append(p.aside, was.tail...))
	edits := []Edit{{Offset: was.segment.Off, New: page, Why: "injected code"}}
	if p.Redirected() {
		edits = append(edits, Edit{Offset: was.segment.Off + uint64(shim.Injected().String), New: p.state(), Why: "injected state"})
	}
	for _, e := range edits {
		e.Old = p.file.Bytes(e.Offset, uint64(len(e.New)))
		p.Edits = append(p.Edits, e)
	}
}

// targets returns the vaddrs behind the targets that patches write.
func (p *Plan) targets() (all []uint64) {
	for i := range p.Patches {
		switch q := &p.Patches[i]; q.Form {
		case Left, Syscall:
		case Entry:
			all = append(all, q.Vaddr+jumpLen)
		default:
			all = append(all, q.Vaddr+uint64(len(q.After)))
		}
	}
	if p.Redirected() {
		all = append(all, p.Redirect.Vaddr+find.RedirectLen)
	}
	return all
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
	layout := shim.Injected()
	good := []uint64{uint64(layout.String)}
	for _, t := range [...]shim.Trampoline{layout.Gettimeofday, layout.Time, layout.Getcpu} {
		good = append(good, uint64(t.Plain), uint64(t.Keep))
	}
	for _, v := range was.sites {
		b := f.Mem(v-4, 4)
		if len(b) < 4 || !slices.Contains(good, was.fromAside(v+elf.Signed(b)-segment.Vaddr)) && !slices.Contains(good, elf.Signed(b)-segment.Vaddr) {
			return broken("the call site that ends at vaddr %#x does not lead to a trampoline", v)
		}
	}
	if err := f.Sound(); err != nil {
		return broken("%v", err)
	}
	return nil
}
