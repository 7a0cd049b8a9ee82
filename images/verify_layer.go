// The added layer, header by header: verify writes the layer once more, with what the base
// says of names, owners, modes and times and the contents that were proved, and it must be
// the same archive to the byte.

package images

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"slices"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/records"
	"vfix.dev/vfix/internal/fallbackfiles"
)

// layer compares the added layer of the source with what a rebuild writes.
func (v *verification) layer(ctx context.Context) error {
	idx := v.after.T.Layers[len(v.after.T.Layers)-1]
	m, err := v.expected(ctx, idx.Entries)
	if err != nil {
		return err
	}
	sum := sha256.New()
	want := map[string]*tar.Header{}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(m.WriteOver(io.MultiWriter(sum, pw), v.base.T)) }()
	err = eachHeader(pr, func(h *tar.Header) { want[path.Clean(h.Name)] = h })
	pr.CloseWithError(errors.New("stopped"))
	if err != nil {
		return fmt.Errorf("added layer, as it should be: %w", err)
	}
	ls, err := blob.OpenLayer(ctx, v.after.T.Again[idx.DiffID], v.s.Progress)
	if err != nil {
		return err
	}
	defer ls.Close()
	seen, same := map[string]bool{}, true
	if err := eachHeader(ls, func(h *tar.Header) { same = v.header(h, want, seen) && same }); err != nil {
		return ls.Wrap(err)
	}
	for _, name := range contents.SortedKeys(want) {
		if !seen[name] {
			same = false
			v.problem("added layer: %s: missing", name)
		}
	}
	if got := blob.Sha256Hash(sum); same && got != idx.DiffID {
		v.problem("added layer: got %v, want %v: another order of members, or bytes beside them", idx.DiffID, got)
	}
	return ls.Finish()
}

// eachHeader calls f for each header of a tar stream, and reads all of it.
func eachHeader(r io.Reader, f func(*tar.Header)) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		f(h)
	}
}

// header compares one header of the added layer, and reports whether it is as wanted. What
// the comparison of the file systems has told is not told again.
func (v *verification) header(got *tar.Header, want map[string]*tar.Header, seen map[string]bool) (same bool) {
	name := path.Clean(got.Name)
	w := want[name]
	switch {
	case w == nil && v.told(name):
		return false
	case w == nil:
		v.problem("added layer: %s: a rebuild adds no such member, of type %q", name, got.Typeflag)
		return false
	case seen[name]:
		v.problem("added layer: %s: a second member with this name", name)
		return false
	}
	seen[name] = true
	var differ []string
	g, e := reflect.ValueOf(*got), reflect.ValueOf(*w)
	for i := range g.NumField() {
		field := g.Type().Field(i).Name
		a, b := g.Field(i).Interface(), e.Field(i).Interface()
		if field == "Xattrs" || reflect.DeepEqual(a, b) { // PAXRecords has them, too
			continue
		}
		if field == "Mode" {
			a, b = fmt.Sprintf("%#o", a), fmt.Sprintf("%#o", b)
		}
		differ = append(differ, fmt.Sprintf("%s: got %v, want %v", field, a, b))
	}
	if len(differ) > 0 && !v.told(name) {
		v.problem("added layer: %s: tar header: %s", name, strings.Join(differ, ", "))
	}
	return len(differ) == 0
}

// told reports whether a name was among what differs already.
func (v *verification) told(name string) bool {
	return slices.ContainsFunc(v.out.Problems, func(p string) bool { return strings.HasPrefix(p, name+": ") })
}

// expected is what a rebuild adds where it adds the files that the entries name.
func (v *verification) expected(ctx context.Context, entries []contents.Entry) (contents.MemberWriters, error) {
	var wanted []*contents.Inode
	for i := range entries {
		if a := v.after.T.At(entries[i].Name); a != nil && a.Kind == contents.KindFile {
			wanted = append(wanted, a.Inode)
		}
	}
	body, err := v.after.Fetch(ctx, wanted)
	if err != nil {
		return nil, err
	}
	extras := repairExtras()
	if v.shim.Present() {
		for _, e := range append(v.shim.LibraryFiles(true), v.shim.TraceFile()) {
			extras[e.Name] = e
		}
	}
	m := contents.MemberWriters{}
	links, written := v.base.T.Names(), map[*contents.Inode][]string{}
	home := map[string]*contents.Inode{}
	for i, names := range links {
		for _, name := range names {
			home[name] = i
		}
	}
	for i := range entries {
		name := entries[i].Name
		b, a := v.base.T.Shown(name), v.after.T.At(name)
		if a == nil || a.Kids != nil || m[name] != nil {
			continue
		}
		if e, ok := extras[name]; ok {
			m.AddExtras([]contents.Extra{e}, v.base.T)
			continue
		}
		if a.Kind != contents.KindFile || b != nil && b.Kind != contents.KindFile {
			continue
		}
		if _, ok := records.IsMD5Sums(name); (ok || name == fallbackfiles.Preload) && a.Size <= records.MaxMD5Sums {
			e := contents.Extra{Name: name, Mode: 0o644}
			if e.Body, err = io.ReadAll(io.NewSectionReader(body[a.Inode], 0, a.Size)); err != nil {
				return nil, err
			}
			if b != nil {
				e.Like = &b.Meta
			}
			m.AddExtras([]contents.Extra{e}, v.base.T)
		} else if i := home[name]; i != nil {
			e := i.Entry
			if a.Sum != nil && i.Sum != nil && *a.Sum != *i.Sum {
				e = e.Unmarked()
				written[i] = links[i]
			}
			m.AddFile(ctx, v.base.T, links[i], e, a.Size, func() io.Reader { return io.NewSectionReader(body[a.Inode], 0, a.Size) })
		}
	}
	return m, m.AddAgain(ctx, v.base.T, v.base.T.Kept(written), v.base.Fetch)
}
