// The files of a source against those that vfix makes of the base, name by name: the members of the added layer,
// or, without an added layer alone, of the whole file system.

package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// trees compares a file system with the base's and what vfix adds to it; s has read the base.
func (v *comparison) trees(ctx context.Context, want, got *contents.Tree, s *contents.Session) error {
	if v.added != nil {
		if err := s.AddLayer(ctx, want, v.added); err != nil {
			return err
		}
	}
	w, g := want.Entries(), got.Entries()
	proved := maps.Clone(v.said)
	v.entries("", w, g)
	var changed []*contents.Inode
	names := map[*contents.Inode]string{}
	for _, name := range contents.SortedKeys(w) {
		b, a := w[name], g[name]
		switch {
		case proved[name] || a == nil || a == b || a.Kind != contents.KindFile || b.Kind != contents.KindFile:
		case a.Sum == nil || b.Sum == nil:
			v.differs(name, "not compared: larger than %d bytes", int64(contents.MaxELF))
		case *a.Sum != *b.Sum:
			changed = append(changed, want.At(name).Inode)
			names[want.At(name).Inode] = name
		}
	}
	fetched, err := want.Fetch(ctx, changed)
	if err != nil {
		return err
	}
	before := map[string]*io.SectionReader{}
	for i, r := range fetched {
		before[names[i]] = r
	}
	return v.contents(ctx, got, before)
}

// archives compares two tarballs as such: programs other than vfix may read more of them than their files.
func (v *comparison) archives(ctx context.Context) error {
	for _, src := range []*media.Source{v.base.Src, v.after.Src} {
		if src.Image != nil {
			return nil
		}
		if tarball, err := contents.IsTarball(src.Path); err != nil || !tarball {
			return err
		}
	}
	want, err := contents.TarballSum(ctx, v.base.Src.Path, v.base.F.ToPatch())
	if err != nil {
		return err
	}
	got, err := contents.TarballSum(ctx, v.after.Src.Path, nil)
	if want != got && err == nil {
		v.out.skip("%v: the order of members, other fields in their headers, bytes beside them: vfix patch writes another archive", v.after.Src.Ref)
	}
	return err
}

// layer compares the added layer, member by member, with the one that vfix writes.
func (v *comparison) layer(ctx context.Context) error {
	is := v.after.T.Layers[len(v.base.T.Layers)]
	want, wanted := map[string]*contents.Entry{}, "none: there is nothing to patch"
	if v.added != nil {
		l, err := v.bases.ReadLayer(ctx, v.added)
		if err != nil {
			return err
		}
		for _, e := range l.Entries {
			want[e.Name] = e
		}
		wanted = v.added.PlainDigest.String()
	}
	got := map[string]*contents.Entry{}
	for _, e := range is.Entries {
		if e.Kind == contents.KindWhiteout || e.Kind == contents.KindOpaque {
			v.differs(e.Name, "missing: the added layer removes it, or what is in it")
			continue
		}
		got[e.Name] = e
	}
	v.entries("added layer: ", want, got)
	added := map[string]*io.SectionReader{}
	for _, e := range v.c.extras {
		if k := v.after.T.At(e.Name); k != nil && k.Kind == contents.KindFile && e.Link == "" {
			added[e.Name] = io.NewSectionReader(bytes.NewReader(e.Body), 0, int64(len(e.Body)))
		}
	}
	if err := v.contents(ctx, v.after.T, added); err != nil {
		return err
	}
	if len(v.said) == 0 {
		v.out.problem("added layer: got %v, want %v: another order of members, other fields in their headers, or bytes beside them", is.DiffID, wanted)
	}
	return nil
}

// entries compares the names, their types and their metadata.
func (v *comparison) entries(where string, want, got map[string]*contents.Entry) {
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, name := range contents.SortedKeys(all) {
		b, a := want[name], got[name]
		differs := func(format string, args ...any) {
			v.said[name] = true
			title := name
			if name == "" {
				title = "the root directory"
			}
			v.out.problem("%s%s: %s", where, title, fmt.Sprintf(format, args...))
		}
		switch {
		case v.said[name]:
		case name == "" && a == contents.ImplicitDir && v.after.Src.Image != nil: // made of a directory, without its root
		case a == nil:
			differs("missing")
		case b == nil:
			differs("a rebuild adds no such file")
		case a.Kind != b.Kind || a.Flag != b.Flag:
			differs("another kind of file")
		default:
			if a.Link != b.Link {
				differs("link: got %q, want %q", a.Link, b.Link)
			}
			if d := a.Meta.Differs(&b.Meta); d != "" {
				differs("%s", d)
			}
		}
	}
}

// contents reports the first difference between the contents of files.
func (v *comparison) contents(ctx context.Context, t *contents.Tree, want map[string]*io.SectionReader) error {
	var there []*contents.Inode
	for name := range want {
		there = append(there, t.At(name).Inode)
	}
	got, err := t.Fetch(ctx, there)
	if err != nil {
		return err
	}
	for _, name := range contents.SortedKeys(want) {
		before, after := want[name], got[t.At(name).Inode]
		differ := patch.SameBytes(before, before.Size(), after, after.Size())
		if differ == nil {
			continue
		}
		if err := v.explain(name, nil, differ, before, after); err != nil {
			return err
		}
		v.differs(name, "%v", differ)
	}
	return nil
}

// Difference shows the differing parts of the two versions of a file. It is made if Rewriter.Explain of the
// VerifyOptions is set.
type Difference struct {
	Path string
	// Patches are the call sites, each with the code on both sides; Edits all that changed in
	// place; Appended is how many bytes are behind the old end. Empty if the file does
	// not differ in call sites only.
	Patches  []patch.Patch
	Redirect *find.Redirect // a fix besides; nil for none
	Edits    []patch.Edit
	Appended int64
	// Unplanned is the first byte that differs from the plan, and Listing the code there; nil
	// for no such byte.
	Unplanned *patch.UnplannedError
	Listing   find.Explanation
}

// explain notes what differs in a file: what was proved of it, or what it failed at.
func (v *comparison) explain(name string, proved *patch.Verification, failed error, before, after *io.SectionReader) error {
	if !v.o.Rewriter.Explain {
		return nil
	}
	d := Difference{Path: name}
	switch {
	case errors.As(failed, &d.Unplanned):
	case failed != nil:
		return nil
	default:
		d.Patches, d.Edits, d.Appended = proved.Patches, proved.Changed, proved.Added
		d.Redirect = proved.Redirect
	}
	v.out.Differences = append(v.out.Differences, d)
	return nil
}
