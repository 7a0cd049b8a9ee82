// Verify: the proof that only planned bytes differ between two files.

package rewriter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
	"vfix.dev/vfix/shim"
)

// Verification is what Verify proved.
type Verification struct {
	Changed []Edit // every run of bytes that differs in place, and what it is
	Patches []Patch
	Added   int64 // bytes behind the original's end
	// Redirect is the repair that the file has besides; nil for none.
	Redirect *Redirect
}

// Verify rereads both files and proves that after is before with nothing but the planned
// bytes changed, and that no patchable site is left in it. The error names the first byte
// that differs and should not (an UnplannedError), or what is missing.
func Verify(before io.ReaderAt, beforeSize int64, after io.ReaderAt, afterSize int64, o Options) (*Verification, error) {
	r, err := Scan(before, beforeSize)
	if err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	if o.Repairs, err = repairsOf(after, afterSize); err != nil {
		return nil, fmt.Errorf("after: %w", err)
	}
	p, err := NewPlan(r, o)
	if err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	if r.file == nil {
		p.Size = beforeSize
	}
	if err := p.same(before, after, afterSize); err != nil {
		older, e := olderPlan(r, after, afterSize)
		if e != nil || older == nil || older.same(before, after, afterSize) != nil {
			return nil, err
		}
		return &Verification{Changed: older.Edits, Patches: older.Patches, Added: older.Size - beforeSize}, nil
	}
	if err := p.verify(after, afterSize); err != nil {
		return nil, err
	}
	v := &Verification{Changed: p.Edits, Patches: p.Patches, Added: p.Size - beforeSize}
	if p.Redirected() {
		v.Redirect = p.Redirect
	}
	return v, nil
}

// repairsOf returns the repairs that a patched file has.
func repairsOf(after io.ReaderAt, size int64) ([]Repair, error) {
	f, err := parse(after, size)
	if err != nil {
		return nil, nil // who compares it says so
	}
	was, err := f.patched()
	if err != nil || was == nil || was.repair == nil {
		return nil, err
	}
	return []Repair{was.repair.name}, nil
}

// Verify is for who has just made after of before by this plan: it checks what the function Verify
// checks, without making the plan again. The plan's own file must still be open.
func (p *Plan) Verify(before, after io.ReaderAt, afterSize int64) error {
	if err := p.same(before, after, afterSize); err != nil {
		return err
	}
	return p.verify(after, afterSize)
}

// same reports whether after is what the plan makes of before.
func (p *Plan) same(before, after io.ReaderAt, afterSize int64) error {
	return sameBytes(io.LimitReader(p.Apply(before), p.Size), p.Size, io.NewSectionReader(after, 0, afterSize), afterSize)
}

// verify proves the plan from the bytes anew, and looks at the patched file.
func (p *Plan) verify(after io.ReaderAt, afterSize int64) error {
	if err := errors.Join(p.prove(), p.proveRedirect()); err != nil || p.Empty() {
		return err
	}
	return verifyPatched(p, after, afterSize)
}

// sameBytes compares two streams of known sizes.
func sameBytes(want io.Reader, wantSize int64, got io.Reader, gotSize int64) error {
	const chunk = 1 << 16
	a, b := make([]byte, chunk), make([]byte, chunk)
	for at := int64(0); at < min(wantSize, gotSize); {
		n := min(chunk, wantSize-at, gotSize-at)
		if _, err := io.ReadFull(want, a[:n]); err != nil {
			return fmt.Errorf("before: read at offset %#x: %w", at, err)
		}
		if _, err := io.ReadFull(got, b[:n]); err != nil {
			return fmt.Errorf("after: read at offset %#x: %w", at, err)
		}
		if !bytes.Equal(a[:n], b[:n]) {
			i := 0
			for a[i] == b[i] {
				i++
			}
			return &UnplannedError{Offset: at + int64(i), Got: b[i], Want: a[i]}
		}
		at += n
	}
	if wantSize != gotSize {
		return fmt.Errorf("got %d bytes, want %d", gotSize, wantSize)
	}
	return nil
}

// verifyPatched looks at the patched file afresh: its headers are sound, no patchable site is
// left but those the plan leaves, the segment is the one that vfix injects, and each patched
// instruction reaches it.
func verifyPatched(p *Plan, after io.ReaderAt, size int64) error {
	r, err := Scan(after, size)
	if err != nil {
		return fmt.Errorf("after: %w", err)
	}
	if r.file == nil {
		return fmt.Errorf("after: %s", r.Skipped)
	}
	left := map[uint64]bool{}
	for _, q := range p.Patches {
		left[q.Site.Vaddr] = q.Form == Left
	}
	for _, s := range r.Sites {
		if s.Verdict.Patchable() && !left[s.Vaddr] {
			return fmt.Errorf("after: %v call site at vaddr %#x: still there", s.Function, s.Vaddr)
		}
	}
	if !p.usesSegment() {
		return nil
	}
	segment, _ := r.file.injected()
	if segment == nil {
		return fmt.Errorf("after: no injected segment")
	}
	if segment.Flags != elf.PFR|elf.PFX || segment.Memsz != shim.SegmentSize || segment.Filesz != shim.SegmentSize {
		return fmt.Errorf("after: injected segment at vaddr %#x: flags %#x, filesz %#x, memsz %#x", segment.Vaddr, segment.Flags, segment.Filesz, segment.Memsz)
	}
	for _, q := range p.Patches {
		if q.Form == Left || q.Form == Syscall {
			continue
		}
		if t := branchTarget(&q); t != segment.Vaddr+trampoline(&q.Site, q.Form) {
			return fmt.Errorf("after: site at vaddr %#x reaches vaddr %#x, not its trampoline", q.Vaddr, t)
		}
	}
	return nil
}

// branchTarget returns where the last rel32 of a patch leads, or its imm32.
func branchTarget(q *Patch) uint64 {
	n := len(q.After)
	rel := int32(uint32(q.After[n-4]) | uint32(q.After[n-3])<<8 | uint32(q.After[n-2])<<16 | uint32(q.After[n-1])<<24)
	if q.Form == Imm {
		return uint64(int64(rel))
	}
	return q.Vaddr + uint64(n) + uint64(int64(rel))
}

// injected returns the segment that vfix injected and the version of its layout; nil and ""
// where there is none. The version is the last byte of the magic.
func (f *file) injected() (segment *elf.Prog, version string) {
	magic := shim.Magic()
	name := magic[:len(magic)-1]
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PTLoad || p.Flags&elf.PFX == 0 || p.Filesz < uint64(len(magic)) {
			continue
		}
		if b, err := f.Bytes(p.Off, uint64(len(magic))); err == nil && bytes.HasPrefix(b, name) {
			return p, string(b[len(name):])
		}
	}
	return nil, ""
}

// olderPlan is the plan of the vfix that made the file after, or that patched anew what an
// older one had made: its code is known, and each site in it leads to the trampoline of the
// function that the site in the file before calls. nil: no such vfix made it.
func olderPlan(r *Report, after io.ReaderAt, size int64) (*Plan, error) {
	f, err := parse(after, size)
	if err != nil || r.file == nil {
		return nil, err
	}
	was, err := f.patched()
	if err != nil || was == nil {
		return systemCalls(r, f), err
	}
	sites, err := was.invert(f)
	if err != nil {
		return nil, err
	}
	p := &Plan{file: r.file, Size: int64(r.file.Size)}
	for _, u := range sites {
		i := slices.IndexFunc(r.Sites, func(s Site) bool {
			end := s.Vaddr + uint64(s.Len)
			if s.Adjacent() {
				end += uint64(s.CallLen)
			}
			return u.vaddr+uint64(len(u.old)) <= end && (u.vaddr >= s.Vaddr || s.Vaddr-u.vaddr <= uint64(len(subRsp8)))
		})
		if i < 0 {
			return nil, nil
		}
		if s := &r.Sites[i]; u.lea && s.Kind == MovImm64 && u.vaddr == s.Vaddr+3 {
			u.vaddr, u.off = s.Vaddr, s.Offset
			if u.old, err = r.file.Bytes(s.Offset, uint64(s.Len)); err != nil {
				return nil, err
			}
		}
		q := Patch{Site: r.Sites[i], Form: u.form(), Reason: "by an older vfix", Vaddr: u.vaddr, Offset: u.off}
		if q.Before, err = r.file.Bytes(u.off, uint64(len(u.old))); err != nil {
			return nil, err
		}
		if q.After, err = f.Bytes(u.off, uint64(len(u.old))); err != nil {
			return nil, err
		}
		if u.fn != q.Site.Function || !sameLoad(q.Before, u.old) {
			return nil, nil
		}
		p.Patches = append(p.Patches, q)
		p.Edits = append(p.Edits, Edit{Offset: u.off, Old: q.Before, New: q.After, Why: "call site"})
	}
	spent := r.file.spentBy(f)
	if spent < 0 && len(f.Progs) != len(r.file.Progs)+1 {
		return nil, nil
	}
	place, err := r.file.roomFor(spent)
	if err != nil || place.vaddr != was.segment.Vaddr {
		return nil, nil
	}
	var unwind *unwinding
	if was.version == currentRelease().version {
		u, err := r.file.planUnwinding(place.vaddr, pageRoom(p.code(), p.changed()))
		if err != nil || !bytes.HasSuffix(was.page, u.fde) {
			return nil, err
		}
		unwind = &u
	}
	if err := p.addSegmentOf(place, was.layout, unwind, func(hooks, []byte) []byte { return was.page }); err != nil {
		return nil, err
	}
	sortEdits(p.Edits)
	return p, nil
}

// systemCalls is the plan of a vfix that found no room for a segment: it did not ask whether rcx
// and r11 are dead. nil: none made f.
func systemCalls(r *Report, f *file) *Plan {
	if s, _ := f.injected(); s != nil {
		return nil
	}
	p := &Plan{file: r.file, Size: int64(r.file.Size)}
	for _, s := range r.Sites {
		if !s.Loads() || !s.Adjacent() || s.Calls != 1 || s.Shared {
			continue
		}
		q := Patch{Site: s, Form: Syscall, Reason: "by an older vfix", Vaddr: s.Vaddr, Offset: s.Offset, After: encodeSyscall(&s)}
		var err1, err2 error
		q.Before, err1 = r.file.Bytes(s.Offset, uint64(len(q.After)))
		got, err2 := f.Bytes(s.Offset, uint64(len(q.After)))
		if err1 != nil || err2 != nil || !bytes.Equal(got, q.After) {
			continue
		}
		p.Patches = append(p.Patches, q)
		p.Edits = append(p.Edits, Edit{Offset: s.Offset, Old: q.Before, New: q.After, Why: "call site"})
	}
	if p.Empty() {
		return nil
	}
	return p
}

// sameLoad reports whether two originals are the same but for the register that holds the
// address, which not every form tells.
func sameLoad(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	x, y := strings.Builder{}, strings.Builder{}
	for _, side := range [...]struct {
		b []byte
		w *strings.Builder
	}{{a, &x}, {b, &y}} {
		for i := 0; i < len(side.b); {
			in, ok := x86.Decode(side.b[i:], 0)
			if !ok {
				side.w.Write(side.b[i:])
				break
			}
			fmt.Fprint(side.w, in.Op, in.Len, in.Args[1], ";")
			i += in.Len
		}
	}
	return x.String() == y.String()
}
