// Relocatable objects (.o, .ko): what a linker has not made a program of. They are examined as if
// one had, each section at the offset that it has in the file, and never changed: what a patched
// site needs, a segment and a hook, only programs and libraries have.

package rewriter

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"sort"
)

// More of the ELF format, for objects. Source: System V gABI, chapter 4; the x86-64 psABI, table
// of relocation types.
const (
	etRel = 1
	// elfIdent is how many bytes of a file tell its type, in bytes.
	elfIdent = 18

	shnAbs = 0xfff1

	r64       = 1
	rPC32     = 2
	rPLT32    = 4
	rGOTPCRel = 9
	r32       = 10
	r32S      = 11
	rPC64     = 24
	rGOTPCX   = 41
	rRexGOTPX = 42

	// maxFixes bounds the symbols and relocations of one object. The largest objects that
	// real libraries hold have below 200,000.
	maxFixes = 1 << 20
	// outside is how far behind the object undefined symbols and .bss lie, in bytes.
	outside = 1 << 20
)

// fix is a field that a linker fills in.
type fix struct {
	off  uint64
	size uint8 // 4 or 8
	val  uint64
}

// linked is an object with its fields filled in. The fixes are in ascending order of their offset.
type linked struct {
	r     io.ReaderAt
	fixes []fix
}

func (l *linked) ReadAt(b []byte, off int64) (int, error) {
	n, err := l.r.ReadAt(b, off)
	const most = 8 // bytes of a field
	i := sort.Search(len(l.fixes), func(i int) bool { return int64(l.fixes[i].off)+most > off })
	for ; i < len(l.fixes) && int64(l.fixes[i].off) < off+int64(n); i++ {
		var field [most]byte
		binary.LittleEndian.PutUint64(field[:], l.fixes[i].val)
		for j, c := range field[:l.fixes[i].size] {
			if at := int64(l.fixes[i].off) + int64(j) - off; at >= 0 && at < int64(n) {
				b[at] = c
			}
		}
	}
	return n, err
}

// isObject reports whether the first bytes of a file are those of a relocatable 64-bit object.
func isObject(head []byte) bool {
	return len(head) >= elfIdent && string(head[:6]) == "\x7fELF\x02\x01" && head[16] == etRel && head[17] == 0
}

// scanObject finds the references of one object. budget is how many instructions may be decoded.
func scanObject(r io.ReaderAt, size int64, budget *int) (*Report, error) {
	rep, err := scanLinked(r, size, budget)
	if skip, ok := err.(*skipError); ok {
		return &Report{Skipped: skip.reason, Damaged: skip.damaged}, nil
	}
	return rep, err
}

func scanLinked(r io.ReaderAt, size int64, budget *int) (*Report, error) {
	e, err := parseObject(r, size)
	if err != nil {
		return nil, err
	}
	f := &file{elfFile: e, budget: budget}
	rep := &Report{}
	if found, err := f.mayCall(); err != nil || !found {
		for i := range f.progs {
			if f.progs[i].flags&pfX != 0 {
				rep.ExecBytes += int64(f.progs[i].filesz)
			}
		}
		rep.Object, rep.size = true, size
		return rep, err
	}
	if err := f.link(); err != nil {
		return nil, err
	}
	if rep, err = scanELF(f, scope{}); err != nil {
		return nil, err
	}
	for i := range rep.Sites {
		rep.Sites[i].in = f
	}
	rep.Object, rep.Static, rep.RawSignals, rep.file, rep.size = true, false, false, nil, size
	return rep, nil
}

// parseObject reads the headers of an object. Its sections that have content in memory become
// segments whose vaddr is their offset.
func parseObject(r io.ReaderAt, size int64) (*elfFile, error) {
	f := &elfFile{r: r, size: uint64(size), typ: etExec}
	if size < ehdrSize {
		return nil, damaged("ends inside the ELF header (%d bytes)", size)
	}
	if size > math.MaxInt32-outside {
		return nil, damaged("object of %d bytes, at most %d are examined", size, math.MaxInt32-outside)
	}
	hdr, err := f.bytes(0, ehdrSize)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if m := le.Uint16(hdr[18:]); m != emX8664 {
		return nil, notFor("ELF for another machine (e_machine %d)", m)
	}
	f.shoff, f.shnum, f.shstrndx = le.Uint64(hdr[40:]), int(le.Uint16(hdr[60:])), int(le.Uint16(hdr[62:]))
	if f.shnum == 0 && f.shoff == 0 {
		return f, nil // nothing in it
	}
	if le.Uint16(hdr[58:]) == shdrSize {
		if err := f.readSections(); err != nil {
			return nil, err
		}
	}
	if f.sections == nil {
		return nil, damaged("section headers of an object")
	}
	return f, f.segments()
}

// segments makes a segment of each section.
func (f *elfFile) segments() error {
	read := uint64(0)
	for i := range f.sections {
		s := &f.sections[i]
		s.addr = 0
		if s.flags&shfAlloc == 0 || s.typ == shtNobits || s.size == 0 {
			continue
		}
		s.addr = s.off
		read += s.size
		p := prog{typ: ptLoad, flags: pfR, off: s.off, vaddr: s.off, filesz: s.size, memsz: s.size}
		if s.flags&shfExecinstr != 0 {
			p.flags |= pfX
		}
		if s.flags&shfWrite != 0 {
			p.flags |= pfW
		}
		f.progs = append(f.progs, p)
	}
	slices.SortFunc(f.progs, func(a, b prog) int { return cmp.Compare(a.off, b.off) })
	for i := range f.progs {
		f.progs[i].index = i
		if i > 0 && f.progs[i].off < f.progs[i-1].off+f.progs[i-1].filesz {
			return damaged("sections overlap at offset %#x", f.progs[i].off)
		}
	}
	return nil
}

// relocations returns the tables of relocations for sections in memory.
func (f *elfFile) relocations() []*section {
	var all []*section
	for i := range f.sections {
		s := &f.sections[i]
		if s.typ == shtRela && int(s.info) < len(f.sections) && f.sections[s.info].addr != 0 {
			all = append(all, s)
		}
	}
	return all
}

// mayCall reports whether there is anything in the object that may be an address of the page, or a
// displacement to it.
func (f *file) mayCall() (bool, error) {
	where := slices.Clone(f.progs)
	for _, s := range f.relocations() {
		where = append(where, prog{off: s.off, filesz: s.size})
	}
	total := uint64(0)
	for i := range where {
		if total += where[i].filesz; total > maxCover*f.size {
			return false, damaged("sections cover the file (%d bytes) more than %d times", f.size, maxCover)
		}
	}
	found := false
	for i := range where {
		err := f.chunks(&where[i], func(b []byte, _ uint64, _, _ int) { found = found || hasPage(b) })
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// hasPage looks for the lower half of an address of the page, or of one 4 bytes before: relocations
// of a call have that.
func hasPage(b []byte) bool {
	const behind = 4 // the displacement's own bytes
	for _, needle := range [...][]byte{pageNeedle, {0x5f, 0xff}} {
		for i := 2; i < len(b); i++ {
			n := bytes.Index(b[i:], needle)
			if n < 0 {
				break
			}
			i += n
			at := uint64(int64(int32(binary.LittleEndian.Uint32(b[i-2:]))))
			if _, ok := FunctionAt(at); ok {
				return true
			}
			if _, ok := FunctionAt(at + behind); ok {
				return true
			}
		}
	}
	return false
}

// link gives symbols and relocated fields the values that they have where each section lies at its
// offset.
func (f *elfFile) link() error {
	l := &linked{r: f.r}
	values, err := f.place(l)
	if err != nil {
		return err
	}
	for _, s := range f.relocations() {
		target := &f.sections[s.info]
		if uint64(len(l.fixes))+s.size/relaSize > maxFixes {
			return damaged("object of more than %d symbols and relocations", maxFixes)
		}
		b, err := f.bytes(s.off, s.size)
		if err != nil {
			return err
		}
		le := binary.LittleEndian
		for ; len(b) >= relaSize; b = b[relaSize:] {
			symbol, value := le.Uint32(b[12:]), uint64(0)
			if int64(symbol) < int64(len(values)) {
				value = values[symbol]
			}
			if x, ok := relocate(le.Uint32(b[8:]), target.addr, le.Uint64(b), value, le.Uint64(b[16:]), f.size); ok && x.off-target.addr <= target.size-uint64(x.size) && target.size >= uint64(x.size) {
				l.fixes = append(l.fixes, x)
			}
		}
	}
	slices.SortStableFunc(l.fixes, func(a, b fix) int { return cmp.Compare(a.off, b.off) })
	f.r = l
	return nil
}

// relocate returns the field at offset r_offset of the section at addr.
func relocate(typ uint32, addr, at, value, addend, size uint64) (fix, bool) {
	x := fix{off: addr + at, size: 4, val: value + addend}
	switch typ {
	case r64:
		x.size = 8
	case rPC64:
		x.size = 8
		x.val -= x.off
	case rPC32, rPLT32:
		x.val -= x.off
	case r32, r32S:
	case rGOTPCRel, rGOTPCX, rRexGOTPX:
		x.val = size + outside - x.off
	default:
		return fix{}, false
	}
	return x, at < size
}

// place gives each symbol the value that it has, and returns all by their number.
func (f *elfFile) place(l *linked) ([]uint64, error) {
	var values []uint64
	for i := range f.sections {
		t := &f.sections[i]
		if t.typ != shtSymtab {
			continue
		}
		if t.size/symSize > maxFixes {
			return nil, damaged("object of more than %d symbols and relocations", maxFixes)
		}
		b, err := f.bytes(t.off, t.size)
		if err != nil {
			return nil, err
		}
		le := binary.LittleEndian
		for at := t.off; len(b) >= symSize; b, at = b[symSize:], at+symSize {
			value := le.Uint64(b[8:])
			switch n := le.Uint16(b[6:]); {
			case n == shnAbs, len(values) == 0: // number 0 is no symbol
			case n != 0 && int(n) < len(f.sections) && f.sections[n].addr != 0:
				value += f.sections[n].addr
				l.fixes = append(l.fixes, fix{at + 8, 8, value})
			default:
				value = f.size + outside
				l.fixes = append(l.fixes, fix{at + 8, 8, value})
			}
			values = append(values, value)
		}
		break
	}
	return values, nil
}
