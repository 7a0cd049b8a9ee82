// One file: whether it calls the page, and how much of it may be read to find out.

package ociruntime

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/rewriter"
)

// What a file must be to be looked at.
const (
	// minELF is an ELF header and one program header, in bytes (gABI, chapters 4 and 5).
	minELF = 64 + 56
	// maxFile is the largest file that is examined, maxExec the most executable bytes of it.
	maxFile = 4 << 30
	maxExec = 1 << 30
	// maxSparse is the largest file that may consist of holes for the most part.
	maxSparse = 256 << 20
)

// examine reads one file. A nil file says that there is nothing to patch in it; an error,
// that it is an ELF file and nobody knows.
func examine(root *rootfs.Root, name string, id rootfs.Identity) (*legacyFile, error) {
	f, err := root.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if elf, err := isELF(f); err != nil || !elf {
		return nil, err
	}
	if err := readable(f); err != nil {
		return nil, err
	}
	plan, err := planOf(f, f.Stat.Size)
	if err != nil || plan == nil {
		return nil, errors.Join(err, f.Unchanged())
	}
	h := &legacyFile{ID: f.ID(), Left: leftOver(plan)}
	if !plan.Empty() {
		h.Size = plan.Size
	}
	if h.SHA256, err = sum(f); err != nil {
		return nil, err
	}
	if f.ID() != id {
		return nil, rootfs.ErrChanged
	}
	return h, f.Unchanged()
}

// isELF looks at the head: a 64-bit little-endian ELF file (gABI, e_ident).
func isELF(f *rootfs.File) (bool, error) {
	var b [6]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		if err == io.EOF {
			return false, nil
		}
		return false, err
	}
	return string(b[:]) == "\x7fELF\x02\x01", nil
}

// errTooMuch: a file costs more to read than any program is large.
var errTooMuch = errors.New("not examined")

// readable refuses files that cost more to read than any program is large.
func readable(f *rootfs.File) error {
	switch {
	case f.Stat.Size > maxFile:
		return fmt.Errorf("%d bytes, %w: at most %d", f.Stat.Size, errTooMuch, int64(maxFile))
	case f.Stat.Size > maxSparse && f.Sparse():
		return fmt.Errorf("%d bytes, %w: most of them are holes", f.Stat.Size, errTooMuch)
	}
	return nil
}

// planOf scans a file of size bytes; a nil plan says that it has no call site that can be
// patched, and none that would have to be.
func planOf(f io.ReaderAt, size int64) (*rewriter.Plan, error) {
	r, err := rewriter.ScanWithin(f, size, maxExec)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(r.Skipped, "executable segments") {
		return nil, fmt.Errorf("%w: %s", errTooMuch, r.Skipped)
	}
	if !slices.ContainsFunc(r.Sites, func(s rewriter.Site) bool { return s.Verdict.Patchable() || s.Verdict == rewriter.Unknown }) {
		return nil, nil
	}
	p, err := rewriter.NewPlan(r, rewriter.Options{})
	if err != nil || p.Empty() && len(p.LeftOver()) == 0 {
		return nil, err
	}
	return p, nil
}

// leftOver says how many live and unknown call sites a plan leaves, and why the first; "" for
// none.
func leftOver(p *rewriter.Plan) string {
	left := p.LeftOver()
	switch len(left) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("1 call site left, at vaddr %#x: %s", left[0].Site.Vaddr, left[0].Reason)
	}
	return fmt.Sprintf("%d call sites left, the first at vaddr %#x: %s", len(left), left[0].Site.Vaddr, left[0].Reason)
}

func sum(f *rootfs.File) ([]byte, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, f.Stat.Size)); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
