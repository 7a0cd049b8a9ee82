// From a source to its file system and its findings.

package contents

import (
	"context"
	"maps"
	"slices"

	"vfix.dev/vfix/images/source"
)

// Subject is a source that was read whole: its file system, and its findings.
type Subject struct {
	Src   *source.Source
	T     *Tree
	F     *Scanned
	Close func()
}

// OpenSubject reads a source whole, with the SHA-256 of every file if the session requests it.
func (s *Session) OpenSubject(ctx context.Context, src *source.Source) (*Subject, error) {
	return s.open(ctx, src, true)
}

// Path examines a directory, a tarball or a file.
func (s *Session) Path(ctx context.Context, name string) (*Scanned, error) {
	return s.PathOf(ctx, &source.Source{Path: name})
}

// PathOf is Path for the path of a source.
func (s *Session) PathOf(ctx context.Context, src *source.Source) (*Scanned, error) {
	sub, err := s.open(ctx, src, false)
	if err != nil {
		return nil, err
	}
	sub.Close()
	if sub.T.disk != nil {
		return sub.F, nil
	}
	if missing := sub.T.missing(); len(missing) > 0 && sub.F.UncoveredSites() == 0 {
		sub.F.Loads = &Loads{Missing: missing}
	}
	return sub.F, nil
}

// open reads and examines a source; of a directory, it reads files without call sites only if whole is set.
func (s *Session) open(ctx context.Context, src *source.Source, whole bool) (_ *Subject, err error) {
	sub := &Subject{Src: src, Close: func() {}}
	defer func() {
		if err != nil {
			sub.Close()
		}
	}()
	tarball := false
	if src.Image == nil {
		if tarball, err = IsTarball(src.Path); err != nil {
			return nil, err
		}
	}
	switch {
	case src.Image != nil:
		sub.T, err = s.Image(ctx, src.Image)
	case tarball:
		sub.T, err = s.Tarball(ctx, src.Path, src.Title())
	default:
		var d *Disk
		if d, err = OpenDisk(src.Path); err == nil {
			sub.Close, d.Whole, d.Title = d.Close, whole, src.Title()
			sub.T, err = d.Tree(ctx, s)
		}
	}
	if err == nil {
		sub.F, err = s.Findings(ctx, sub.T)
	}
	if err != nil {
		return nil, err
	}
	sub.F.Source, sub.F.Digest = src.Ref.String(), src.Digest
	if whole {
		err = sub.T.hold(ctx, sub.F.Targets)
	}
	return sub, err
}

// SortedKeys returns the keys of m in order, so that output is reproducible.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
