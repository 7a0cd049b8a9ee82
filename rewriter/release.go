// Files that vfix has patched: what they were is reconstructed. For a repair they are patched
// again in place. The segment, its program header and its section header stay where they are.

package rewriter

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/shim"
)

// release is injected code of this vfix.
type release struct {
	version string
	size    int    // of its code in bytes
	sha256  string // of its code, the two holes zeroed
	layout  shim.Layout
	repair  *repair // that it has the code for; nil for none
}

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
}

// table says that it is the place of an FDE in an unwind table: no call site is as short.
func (u *undo) table() bool { return len(u.old) == 4 }

// patchedFile is what is known of a file that vfix has patched.
type patchedFile struct {
	release
	segment elf.Prog
	page    []byte // its code, with what follows it
	sites   []undo
	r       io.ReaderAt // the file as it is
	entry   uint64      // its e_entry
}

// patched recognises a file that this vfix has patched, by the whole of its code;
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
	for _, r := range currentReleases() {
		if r.version != version || r.sum(page) != r.sha256 {
			continue
		}
		p := &patchedFile{release: r, segment: *segment, page: page, r: f.R, entry: f.Entry}
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
	h := hooks{entry: was.hole(was.layout.EntryHole), init: was.hole(was.layout.InitHole)}
	page, err := segmentPage(p.code(), was.segment.Vaddr, h, was.note(), p.changed(), &u)
	if err != nil {
		p.Warnings = append(p.Warnings, err.Error())
	}
	edits = append(edits, Edit{Offset: was.segment.Off, New: page, Why: "injected code"},
		Edit{Offset: was.segment.Off + uint64(shim.Injected().String), New: p.state(), Why: "injected state"})
	now := *f.File
	now.R = was.r
	all := slices.Concat(p.Edits, edits)
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
