// From a source to its file system and its findings.

package contents

import (
	"context"
	"maps"
	"slices"

	"vfix.dev/vfix/images/source"
)

// Subject is an image that was read: its merged file system, and its findings.
type Subject struct {
	Src *source.Source
	T   *Tree
	F   *Scanned
}

// OpenSubject reads an image, with the SHA-256 of every file if the session requests it.
func (s *Session) OpenSubject(ctx context.Context, src *source.Source) (*Subject, error) {
	t, err := s.Image(ctx, src.Image)
	if err != nil {
		return nil, err
	}
	f := t.Findings()
	f.Source, f.Digest = src.Ref.String(), src.Digest
	return &Subject{src, t, f}, nil
}

// Path examines a source that is a directory, a tarball or a file.
func (s *Session) Path(ctx context.Context, src *source.Source) (f *Scanned, err error) {
	tarball, err := IsTarball(src.Path)
	if err != nil {
		return nil, err
	}
	if tarball {
		f, err = s.scanTarball(ctx, src)
	} else {
		var d *Disk
		if d, err = OpenDisk(src.Path); err != nil {
			return nil, err
		}
		defer d.Close()
		d.Title = src.Title()
		f, err = d.Scan(ctx, s)
	}
	if err == nil {
		f.Source = src.Ref.String()
	}
	return f, err
}

func (s *Session) scanTarball(ctx context.Context, src *source.Source) (*Scanned, error) {
	t, err := s.Tarball(ctx, src.Path, src.Title())
	if err != nil {
		return nil, err
	}
	f := t.Findings()
	if missing := t.missing(); len(missing) > 0 && f.UncoveredSites() == 0 {
		f.Loads = &Loads{Missing: missing}
	}
	return f, nil
}

// SortedKeys returns the keys of m in order, so that output is reproducible.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
