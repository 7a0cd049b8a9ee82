// Verify proves that only planned bytes differ between two files.

package patch

import (
	"bytes"
	"fmt"
	"io"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
)

// Verification is the result of Verify.
type Verification struct {
	Changed []Edit // every range of bytes that differs in place, and its meaning
	Patches []Patch
	Added   int64 // bytes behind the original's end
	// Redirect is the additional fix in the file; nil for none.
	Redirect *find.Redirect
}

// Verify reads both files again, derives the plan again and proves that after is before with only the planned
// bytes changed, and that it has no patchable site. The error is the first byte that differs and should
// not, or what is missing.
func Verify(before io.ReaderAt, beforeSize int64, after io.ReaderAt, afterSize int64, o Options) (*Verification, error) {
	r, err := Scan(before, beforeSize)
	if err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	if o.Fixes, err = fixesOf(after, afterSize); err != nil {
		return nil, fmt.Errorf("after: %w", err)
	}
	p, err := NewPlan(r, o)
	if err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	if r.File == nil {
		p.Size = beforeSize
	}
	if err := p.same(before, after, afterSize); err != nil {
		return nil, err
	}
	if !p.Empty() {
		if err := verifyPatched(p, after, afterSize); err != nil {
			return nil, err
		}
	}
	v := &Verification{Changed: p.Edits, Patches: p.Patches, Added: p.Size - beforeSize}
	if p.Redirected() {
		v.Redirect = p.Redirect
	}
	return v, nil
}

// fixesOf returns the fixes that a patched file has.
func fixesOf(after io.ReaderAt, size int64) ([]find.Fix, error) {
	f, err := elf.Parse(after, size)
	if err != nil {
		return nil, nil // the comparison reports it
	}
	if was := patched(f); was != nil {
		return []find.Fix{was.fix}, nil
	}
	return nil, f.Err()
}

// same reports whether after is the result of the plan for before.
func (p *Plan) same(before, after io.ReaderAt, afterSize int64) error {
	want := p.Apply(before)
	got := io.NewSectionReader(after, 0, afterSize)
	const chunk = 1 << 16
	a, b := make([]byte, chunk), make([]byte, chunk)
	for at := int64(0); at < min(p.Size, afterSize); {
		n := min(chunk, p.Size-at, afterSize-at)
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
			return fmt.Errorf("offset %#x: got byte %#02x, want %#02x: not a planned change", at+int64(i), b[i], a[i])
		}
		at += n
	}
	if p.Size != afterSize {
		return fmt.Errorf("got %d bytes, want %d", afterSize, p.Size)
	}
	return nil
}

// verifyPatched examines the patched file independently: a scan must find it intact, with the segment that vfix
// injects, and with no sites except those that the plan leaves.
func verifyPatched(p *Plan, after io.ReaderAt, size int64) error {
	r, err := Scan(after, size)
	if err != nil {
		return fmt.Errorf("after: %w", err)
	}
	if r.File == nil {
		return fmt.Errorf("after: %s", r.Skipped)
	}
	left := map[uint64]bool{}
	for _, q := range p.Patches {
		left[q.Site.Vaddr] = q.Form == Left
	}
	for _, s := range r.Sites {
		if !left[s.Vaddr] {
			return fmt.Errorf("after: %v call site at vaddr %#x: not in the plan", s.Function, s.Vaddr)
		}
	}
	if !p.usesSegment() {
		return nil
	}
	if segment, _ := injected(r.File.File); segment == nil {
		return fmt.Errorf("after: no injected segment")
	}
	if p.file.InOrder() == nil {
		if err := r.File.InOrder(); err != nil {
			return fmt.Errorf("after: %w", err)
		}
	}
	return nil
}
