// Files that an older vfix has patched: what they were is reconstructed, and they are patched
// anew in place. The segment, its program header and its section header stay where they are.

package rewriter

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
	"vfix.dev/vfix/shim"
)

// release is the injected code of a vfix that was given to others.
type release struct {
	version string
	size    int    // of its code in bytes
	sha256  string // of its code, the two holes zeroed
	layout  shim.Layout
	repair  *repair // that it has the code for; nil for none
}

// releases are the older ones. Nothing that was built is kept, so their offsets are typed.
var releases = []release{
	{version: "1", size: 1340, sha256: "87be902a9f8653e70eccaedbf4fe521f3979b38dbc4576465d978b6568c332ea", layout: shim.Layout{
		Gettimeofday: shim.Trampoline{Plain: 0x10, Keep: 0x30},
		Time:         shim.Trampoline{Plain: 0x60, Keep: 0x80},
		Getcpu:       shim.Trampoline{Plain: 0xb0, Keep: 0xd0},
		EntryHook:    0x100, EntryHole: 0x125, InitHook: 0x130, InitHole: 0x150, State: 0x1000,
	}},
	{version: "2", size: 1468, sha256: "a7dec4f6833e2813f240c5fc00c9469ca772f305759611c6795264aa9ee75471", layout: shim.Layout{
		Gettimeofday: shim.Trampoline{Plain: 0x10, Keep: 0x30},
		Time:         shim.Trampoline{Plain: 0x70, Keep: 0x90},
		Getcpu:       shim.Trampoline{Plain: 0xd0, Keep: 0xf0},
		EntryHook:    0x130, EntryHole: 0x155, InitHook: 0x160, InitHole: 0x180, State: 0x1000,
	}},
}

// firstRelease is the one that kept no record.
const firstRelease = "1"

// currentRelease is what this vfix injects.
func currentRelease() release {
	return releaseOf(shim.Code(), nil)
}

// currentReleases are all that this vfix injects.
func currentReleases() []release {
	all := []release{currentRelease()}
	for i := range repairs {
		all = append(all, releaseOf(repairs[i].code(), &repairs[i]))
	}
	return all
}

// current reports whether this vfix injects the release.
func (r *release) current() bool {
	return slices.ContainsFunc(currentReleases(), func(now release) bool { return now.sha256 == r.sha256 })
}

func releaseOf(code []byte, repair *repair) release {
	r := release{repair: repair, version: string(code[len(shim.Magic())-1:][:1]), size: len(code), layout: shim.Injected()}
	r.sha256 = r.sum(code)
	return r
}

// sum returns the hash of the code with its holes zeroed.
func (r *release) sum(code []byte) string {
	b := bytes.Clone(code[:r.size])
	clear(b[r.layout.EntryHole:][:4])
	clear(b[r.layout.InitHole:][:4])
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// undo is the original bytes of a call site that is patched.
type undo struct {
	vaddr, off uint64
	old        []byte
	fn         Function // that it called; known where the record was not needed
	lea, jump  bool     // how it was patched; neither: by a call
}

// table says that it is the place of an FDE in an unwind table: no call site is as short.
func (u *undo) table() bool { return len(u.old) == 4 }

// form is how the site was patched.
func (u *undo) form() Form {
	switch {
	case u.lea:
		return Lea
	case u.jump && len(u.old) == jumpLen:
		return Entry
	}
	return Call
}

// patchedFile is what is known of a file that vfix has patched.
type patchedFile struct {
	release
	segment elf.Prog
	page    []byte // its code, with what follows it
	sites   []undo
	r       io.ReaderAt // the file as it is
	entry   uint64      // its e_entry
}

// patched recognises a file that this or an older vfix has patched, by the whole of its code;
// nil for any other.
func (f *file) patched() (*patchedFile, error) {
	segment, version := f.injected()
	if segment == nil || segment.Filesz != shim.SegmentSize {
		return nil, nil
	}
	page, err := f.Bytes(segment.Off, elf.PageSize)
	if err != nil {
		return nil, err
	}
	for _, r := range append(currentReleases(), releases...) {
		if r.version != version || r.sum(page) != r.sha256 {
			continue
		}
		p := &patchedFile{release: r, segment: *segment, page: page, r: f.R, entry: f.Entry}
		if r.version == firstRelease {
			p.sites, err = p.invert(f)
			return p, err
		}
		var known bool
		if p.sites, known = readRecord(f, segment.Vaddr, page[r.size:]); !known {
			return nil, nil
		}
		return p, nil
	}
	return nil, nil
}

// The record stands behind the code, at the next 8 bytes: the spent program header, as it was;
// how many sites there are (2 bytes); and for each the distance of its vaddr from the segment's
// (4 bytes), the length and the bytes of what it was, each inverted, so that nothing in the
// segment refers to the page. Little-endian.
const (
	recordAlign = 8
	recordHead  = elf.PhdrSize + 2
	recordSite  = 5
)

// record returns the record of the sites, and of the entry of an unwind table; ok is false where
// it does not fit into room bytes.
func record(note []byte, segment uint64, patches []Patch, u *unwinding, room int) (b []byte, ok bool) {
	b = append(b, note...)
	n := 0
	b = append(b, 0, 0)
	add := func(vaddr uint64, before []byte) {
		n++
		b = binary.LittleEndian.AppendUint32(b, uint32(vaddr-segment))
		b = append(append(b, byte(len(before))), complement(before)...)
	}
	for i := range patches {
		if q := &patches[i]; q.Form != Left {
			add(q.Vaddr, q.Before)
		}
	}
	if u.fde != nil {
		add(u.entryAt, u.entry.Old)
	}
	binary.LittleEndian.PutUint16(b[elf.PhdrSize:], uint16(n))
	return b, len(b) <= room && n < maxSites
}

// complement returns the bytes with every bit inverted.
func complement(b []byte) []byte {
	b = bytes.Clone(b)
	for i := range b {
		b[i] = ^b[i]
	}
	return b
}

// readRecord reads the record; ok is false where there is none, or it is damaged.
func readRecord(f *file, segment uint64, b []byte) (sites []undo, ok bool) {
	for len(b) > 0 && (elf.PageSize-len(b))%recordAlign != 0 {
		b = b[1:]
	}
	if len(b) < recordHead {
		return nil, false
	}
	n := int(binary.LittleEndian.Uint16(b[elf.PhdrSize:]))
	for b = b[recordHead:]; n > 0; n-- {
		if len(b) < recordSite || len(b) < recordSite+int(b[4]) {
			return nil, false
		}
		u := undo{vaddr: segment + uint64(int64(int32(binary.LittleEndian.Uint32(b)))), old: complement(b[recordSite:][:b[4]])}
		if u.off, ok = f.Offset(u.vaddr, uint64(len(u.old))); !ok || !u.table() && !f.ExecLoad(u.vaddr) {
			return nil, false
		}
		sites = append(sites, u)
		b = b[recordSite+len(u.old):]
	}
	return sites, true
}

// invert finds the sites of a release that kept no record: what leads to its trampolines.
func (p *patchedFile) invert(f *file) ([]undo, error) {
	targets := map[uint64]Function{}
	for fn, t := range [...]shim.Trampoline{Gettimeofday: p.layout.Gettimeofday, Time: p.layout.Time, Getcpu: p.layout.Getcpu} {
		targets[p.segment.Vaddr+uint64(t.Plain)] = Function(fn)
		targets[p.segment.Vaddr+uint64(t.Keep)] = Function(fn)
	}
	var found []undo
	for i := range f.Progs {
		seg := &f.Progs[i]
		if seg.Type != elf.PTLoad || seg.Flags&elf.PFX == 0 || seg.Filesz == 0 || seg.Vaddr == p.segment.Vaddr {
			continue
		}
		err := f.Chunks(seg, func(b []byte, vaddr uint64, lo, hi int) {
			for i := lo; i < hi && i+4 <= len(b); i++ {
				next := vaddr + uint64(i) + 4
				fn, ok := targets[next+uint64(int64(int32(binary.LittleEndian.Uint32(b[i:]))))]
				if !ok || len(found) >= maxSites {
					continue
				}
				if n, old := original(b, i, next, fn); old != nil {
					u := undo{vaddr: vaddr + uint64(i-n), old: old, fn: fn, lea: b[i-2] == 0x8d, jump: b[i-1] == 0xe9}
					if u.off, ok = f.Offset(u.vaddr, uint64(len(old))); ok {
						found = append(found, u)
					}
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b undo) int { return int(int64(a.vaddr - b.vaddr)) })
	return slices.CompactFunc(found, func(a, b undo) bool { return a.vaddr == b.vaddr }), nil
}

// original returns what a patch was whose displacement is at b[i], and how many bytes of it
// stand before the displacement. Where the patch does not say which register held the address
// it is rax, which the call overwrites.
func original(b []byte, i int, next uint64, fn Function) (before int, old []byte) {
	le := binary.LittleEndian
	imm := le.AppendUint32(nil, uint32(fn.Vaddr()))
	load := func(reg, n int) []byte { // a load of n bytes
		if n == 7 {
			return append([]byte{0x48 | byte(reg>>3), 0xc7, 0xc0 | byte(reg&7)}, imm...)
		}
		return append(append([]byte{0x48 | byte(reg>>3), 0xb8 | byte(reg&7)}, imm...), 0xff, 0xff, 0xff, 0xff)
	}
	if i >= 3 && b[i-3]&0xfb == 0x48 && b[i-2] == 0x8d && b[i-1]&0xc7 == 5 { // lea
		// A nop of 3 bytes before it was part of a load of 10 bytes, or padding that something
		// may land behind: the load of 7 does the same.
		return 3, load(int(b[i-3]&4)<<1|int(b[i-1]>>3&7), 7)
	}
	if i < 1 || b[i-1] != 0xe8 && b[i-1] != 0xe9 {
		return 0, nil
	}
	tail := b[i-1] == 0xe9
	if tail { // over the start of a stub: what is left of it tells
		for _, stub := range stubs(load) {
			if rest := b[i+4:]; len(rest) >= len(stub)-jumpLen && bytes.Equal(rest[:len(stub)-jumpLen], stub[jumpLen:]) {
				return 1, stub[:jumpLen]
			}
		}
	}
	op := byte(0xd0)
	if tail {
		op = 0xe0
	}
	for _, pad := range [...]int{8, 7, 5, 4} { // the longest first: it ends as others do
		if i-1 < pad || !bytes.Equal(b[i-1-pad:i-1], x86.Nops[pad]) {
			continue
		}
		call, reg, n := []byte{0xff, op}, x86.Rax, pad+jumpLen-2
		if n != 7 && n != 10 { // through r8 to r15: the call is longer
			call, reg, n = []byte{0x41, 0xff, op | 3}, x86.R11, n-1
		}
		return 1 + pad, append(load(reg, n), call...)
	}
	if target := fn.Vaddr(); inReach(next, target) { // a direct call, of a program at a low address
		return 1, le.AppendUint32([]byte{b[i-1]}, uint32(target-next))
	}
	return 0, nil
}

// stubs are the functions that the entry form begins with, for every register.
func stubs(load func(reg, n int) []byte) [][]byte {
	var all [][]byte
	for reg := range x86.NumRegs {
		for _, n := range [...]int{7, 10} {
			prefix := []byte{}
			if reg >= x86.R8 {
				prefix = []byte{0x41}
			}
			mov := load(reg, n)
			call := slices.Concat(mov, prefix, []byte{0xff, 0xd0 | byte(reg&7)})
			all = append(all, slices.Concat(subRsp8, call, addRsp8, []byte{opRet}), append(call, opRet),
				slices.Concat(mov, prefix, []byte{0xff, 0xe0 | byte(reg&7)}))
		}
	}
	return all
}

// overlay is a file as it was before its call sites were patched.
type overlay struct {
	r     io.ReaderAt
	sites []undo
}

func (o overlay) ReadAt(b []byte, off int64) (int, error) {
	n, err := o.r.ReadAt(b, off)
	for _, u := range o.sites {
		for i, c := range u.old {
			if at := int64(u.off) + int64(i) - off; at >= 0 && at < int64(n) {
				b[at] = c
			}
		}
	}
	return n, err
}

// original returns the view of f without what was patched: its sites are as they were, and the
// injected segment is none.
func (p *patchedFile) original(f *file) *file {
	e := *f.File
	g := &file{File: &e, budget: f.budget, was: p, tables: f.tables}
	g.R = overlay{f.R, p.sites}
	g.Progs = slices.Clone(f.Progs)
	g.Progs[p.segment.Index].Type = 0 // PT_NULL
	if f.Entry == p.segment.Vaddr+uint64(p.layout.EntryHook) {
		g.Entry = p.hole(p.layout.EntryHole)
	}
	return g
}

// unpatched is the report of a file that this vfix has patched as it was before.
func (r *Report) unpatched() (*Report, error) {
	fresh, err := scanELF(r.was.original(r.file), scope{})
	if err != nil {
		return nil, err
	}
	fresh.Injected, fresh.Refresh = r.Injected, true
	if fresh.Redirect == nil {
		fresh.Redirect = r.Redirect
	}
	return fresh, nil
}

// refresh completes the plan for a file that is patched already: sites that are to be otherwise,
// the code of the segment and where its hooks are entered. Edits that change nothing go.
func (p *Plan) refresh() error {
	f, was := p.file, p.file.was
	u, err := f.planUnwinding(was.segment.Vaddr, pageRoom(p.code(), p.changed()))
	if err != nil {
		return err
	}
	if u.fde != nil {
		p.Edits = append(p.Edits, u.entry)
	}
	var edits []Edit
	for _, u := range was.sites {
		e := Edit{Offset: u.off, New: bytes.Clone(u.old), Why: "call site"}
		p.Edits = slices.DeleteFunc(p.Edits, func(o Edit) bool {
			from, to := min(e.Offset, o.Offset), max(e.Offset+uint64(len(e.New)), o.Offset+uint64(len(o.New)))
			if o.Offset >= e.Offset+uint64(len(e.New)) || e.Offset >= o.Offset+uint64(len(o.New)) {
				return false
			}
			b, err := f.Bytes(from, to-from)
			if err != nil {
				return false // overlaps, and the plan says so
			}
			copy(b[e.Offset-from:], e.New)
			copy(b[o.Offset-from:], o.New)
			e.Offset, e.New = from, b
			return true
		})
		edits = append(edits, e)
	}
	if !was.current() {
		p.Warnings = append(p.Warnings, "patched by an older vfix (format "+was.version+"): patched anew in place")
	}
	h := hooks{entry: was.hole(was.layout.EntryHole), init: was.hole(was.layout.InitHole)}
	if err := p.replaceTail(&u); err != nil {
		return err
	}
	page, err := segmentPage(p.code(), was.segment.Vaddr, h, was.note(), p.changed(), &u)
	if err != nil {
		p.Warnings = append(p.Warnings, err.Error())
	}
	edits = append(edits, Edit{Offset: was.segment.Off, New: page, Why: "injected code"},
		Edit{Offset: was.segment.Off + uint64(shim.Injected().String), New: p.state(), Why: "injected state"})
	moved, err := f.movedHooks()
	if err != nil {
		return err
	}
	now := *f.File
	now.R = was.r
	all := slices.Concat(p.Edits, edits, moved)
	p.Edits = nil
	for _, e := range all {
		if e.Old, err = now.Bytes(e.Offset, uint64(len(e.New))); err != nil {
			return err
		}
		if !bytes.Equal(e.Old, e.New) {
			p.Edits = append(p.Edits, e)
		}
	}
	return nil
}

// hole returns where the jump at a hole of the segment leads, 0 where nothing was filled in.
func (p *patchedFile) hole(at uint32) uint64 {
	next := uint64(at) + 4
	to := next + uint64(int64(int32(binary.LittleEndian.Uint32(p.page[at:]))))
	if to < uint64(p.size) {
		return 0
	}
	return p.segment.Vaddr + to
}

// note returns the program header that was spent, zeros where the release did not keep it.
func (p *patchedFile) note() []byte {
	return p.page[recordAt(p.size):][:elf.PhdrSize]
}

// movedHooks retargets whatever enters the hooks of an older layout.
func (f *file) movedHooks() ([]Edit, error) {
	was, now := f.was, shim.Injected()
	move := map[uint64]uint64{
		was.segment.Vaddr + uint64(was.layout.EntryHook): was.segment.Vaddr + uint64(now.EntryHook),
		was.segment.Vaddr + uint64(was.layout.InitHook):  was.segment.Vaddr + uint64(now.InitHook),
	}
	var edits []Edit
	word := func(off, v uint64, why string) {
		if to, ok := move[v]; ok {
			edits = append(edits, Edit{Offset: off, New: binary.LittleEndian.AppendUint64(nil, to), Why: why})
		}
	}
	const entryOff = 24
	word(entryOff, was.entry, "e_entry")
	if d := f.Dyn(elf.DTInit); d != nil {
		word(d.Off+8, d.Val, "DT_INIT")
	}
	if array := f.Dyn(elf.DTInitArray); array != nil {
		if off, ok := f.Offset(array.Val, 8); ok {
			v, _ := f.Word(array.Val)
			word(off, v, "init_array[0]")
		}
		off, addend, err := f.RelativeAddend(array.Val)
		if err != nil {
			return nil, err
		}
		if off != 0 {
			word(off, addend, "init_array[0]")
		}
	}
	return edits, nil
}
