// From a source to its file system and what is found in it.

package contents

import (
	"context"
	"maps"
	"slices"

	"vfix.dev/vfix/images/media"
)

// Subject is a source that is examined whole: its file system, and what was found in it.
type Subject struct {
	Src   *media.Source
	T     *Tree
	F     *Scanned
	Close func()
}

// OpenSubject reads a source whole, with the SHA-256 of every file if the session asks for it.
func (s *Session) OpenSubject(ctx context.Context, src *media.Source) (_ *Subject, err error) {
	sub := &Subject{Src: src, Close: func() {}}
	defer func() {
		if err != nil {
			sub.Close()
		}
	}()
	if src.Image != nil {
		sub.T, err = s.Image(ctx, src.Image)
	} else {
		sub.T, sub.Close, err = s.path(ctx, src.Path, true)
	}
	if err != nil {
		return nil, err
	}
	if sub.F, err = s.Findings(ctx, sub.T); err != nil {
		return nil, err
	}
	sub.F.Source, sub.F.Digest = src.Ref.String(), src.Digest
	for _, name := range src.Beside {
		sub.F.Passed = append(sub.F.Passed, Passed{Path: name, Reason: "beside the root filesystem, and not looked into", Unread: true})
	}
	return sub, sub.T.hold(ctx, sub.F.Targets)
}

// Path examines a directory, a tarball or a file.
func (s *Session) Path(ctx context.Context, name string) (*Scanned, error) {
	t, done, err := s.path(ctx, name, false)
	if err != nil {
		return nil, err
	}
	defer done()
	f, err := s.Findings(ctx, t)
	if err != nil {
		return nil, err
	}
	f.Source = name
	return f, nil
}

// path reads a directory, a tarball or a file; done ends all access to it.
func (s *Session) path(ctx context.Context, name string, whole bool) (t *Tree, done func(), err error) {
	done = func() {}
	tarball, err := IsTarball(name)
	if err != nil {
		return nil, done, err
	}
	if tarball {
		t, err = s.Tarball(ctx, name)
		return t, done, err
	}
	d, err := OpenDisk(name)
	if err != nil {
		return nil, done, err
	}
	d.Whole = whole
	if t, err = d.Tree(ctx, s); err != nil {
		d.Close()
		return nil, done, err
	}
	return t, d.Close, nil
}

// SortedKeys are the keys of m in order, for output that is the same each time.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
