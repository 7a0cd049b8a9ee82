// What verify accepts beyond call sites: the fallback of this vfix, to the byte.

package images

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/internal/fallbackfiles"
)

// added is a name that only the source has.
type added struct {
	name string
	*contents.Node
}

// fallback takes what is the fallback's out of what differs, and makes problems of all
// else that only the source has. It returns the changed files that are left to prove.
func (v *verification) fallback(ctx context.Context, changed []pair) ([]pair, error) {
	want := map[string]contents.Extra{}
	if v.shim.Present() {
		for _, e := range append(v.shim.LibraryFiles(true), v.shim.TraceFile()) {
			want[e.Name] = e
		}
	}
	extras := repairExtras()
	for _, a := range v.added {
		if e, ok := extras[a.name]; ok {
			if err := v.repairFile(ctx, a, e); err != nil {
				return nil, err
			}
			continue
		}
		e, known := want[a.name]
		same := false
		switch {
		case !known && a.name == fallbackfiles.Preload && v.shim.Present():
			known = true
			content, err := v.read(ctx, v.after, a.Inode)
			if err != nil {
				return nil, err
			}
			same = v.isPreload(nil, content) && a.Meta.Plain(0o644)
		case !known && a.Kids != nil:
			known, same = v.isFolder(a)
		case known && e.Link != "":
			same = a.Kind == contents.KindSymlink && a.Link == e.Link
		case known:
			content, err := v.read(ctx, v.after, a.Inode)
			if err != nil {
				return nil, err
			}
			same = a.Meta.Plain(e.Mode) && bytes.Equal(content, e.Body)
		}
		switch {
		case !known:
			v.problem("%s: not in the base", a.name)
		case !same:
			v.problem("%s: not in the base, and not the fallback of this vfix", a.name)
		case a.Kids == nil:
			v.out.Added = append(v.out.Added, a.name)
		}
	}
	if slices.Contains(v.out.Added, fallbackfiles.Dir+"/"+fallbackfiles.Library) && v.after.T.Find(fallbackfiles.Preload) == nil {
		v.problem("%s: missing, although the library that it loads is there", fallbackfiles.Preload)
	}
	return v.changedPreload(ctx, changed)
}

// changedPreload takes ld.so.preload out of the changed files where a line of ours is all
// that is new in it.
func (v *verification) changedPreload(ctx context.Context, changed []pair) ([]pair, error) {
	i := slices.IndexFunc(changed, func(p pair) bool { return p.name == fallbackfiles.Preload })
	if i < 0 || !v.shim.Present() {
		return changed, nil
	}
	base, err := v.read(ctx, v.base, changed[i].base)
	if err != nil {
		return nil, err
	}
	after, err := v.read(ctx, v.after, changed[i].after)
	if err != nil {
		return nil, err
	}
	if !v.isPreload(base, after) {
		return changed, nil
	}
	v.out.Added = append(v.out.Added, fallbackfiles.Preload)
	slices.Sort(v.out.Added)
	return slices.Delete(changed, i, i+1), nil
}

// isPreload reports whether after is what a rebuild makes of an ld.so.preload.
func (v *verification) isPreload(base, after []byte) bool {
	return bytes.Equal(after, fallbackfiles.WithLine(base, false)) || bytes.Equal(after, fallbackfiles.WithLine(base, true))
}

// isFolder reports whether a folder is one that the fallback's files need, and made for it.
func (v *verification) isFolder(a added) (known, same bool) {
	for _, e := range append(v.shim.LibraryFiles(true), v.shim.TraceFile(), contents.Extra{Name: fallbackfiles.Preload}) {
		if len(e.Name) > len(a.name) && e.Name[:len(a.name)+1] == a.name+"/" {
			known = v.shim.Present()
		}
	}
	for name := range repairExtras() {
		known = known || strings.HasPrefix(name, a.name+"/")
	}
	return known, a.Meta.Plain(0o755)
}

// read returns a file's content; nil for what is no regular file of a size that the
// fallback's files have.
func (v *verification) read(ctx context.Context, s *contents.Subject, i *contents.Inode) ([]byte, error) {
	if i.Kind != contents.KindFile || i.Size > max(fallback.MaxPreload, int64(len(v.shim.Library)), int64(len(v.shim.Trace))) {
		return nil, nil
	}
	got, err := s.Fetch(ctx, []*contents.Inode{i})
	if err != nil || got[i] == nil {
		return nil, err
	}
	return io.ReadAll(got[i])
}
