// The file system of a source, name by name, against the one that vfix makes of the base: what
// differs, where the layers do not say that nothing does.

package images

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"reflect"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// files compares the file systems.
func (v *comparison) files(ctx context.Context) error {
	s := v.bases
	if v.layered { // what layers hold was read without the sums of files
		s = v.session(true)
		defer s.Close()
	}
	want, err := v.wanted(ctx, s)
	if err != nil {
		return err
	}
	got := v.after.T
	if v.layered {
		if got, err = s.Image(ctx, v.after.Src.Image); err != nil {
			return err
		}
	}
	return v.contents(ctx, want, got, v.names(want, got))
}

// wanted is the file system that vfix makes of the base.
func (v *comparison) wanted(ctx context.Context, s *contents.Session) (*contents.Tree, error) {
	var img v1.Image = v.base.Src.Image
	switch {
	case img == nil && v.added == nil:
		return v.base.T, nil
	case img == nil:
		return v.base.T, s.AddLayer(ctx, v.base.T, v.added)
	case v.added != nil:
		var err error
		if img, err = derive(img, true, v.added, v.from); err != nil {
			return nil, err
		}
	}
	return s.Image(ctx, img)
}

// pair is a file whose content differs, in both file systems.
type pair struct {
	name      string
	want, got *contents.Inode
}

// names compares which names there are, what they are and their metadata. It returns the
// files whose contents differ, each inode once.
func (v *comparison) names(want, got *contents.Tree) []pair {
	w, g := byName(want), byName(got)
	firstWant, firstGot := firstNames(w), firstNames(g)
	if d := got.Root.Meta.Differs(&want.Root.Meta); d != "" {
		v.out.problem("the root directory: %s", d)
	}
	var changed []pair
	seen := map[*contents.Inode]bool{}
	all := maps.Clone(w)
	maps.Copy(all, g)
	for _, name := range contents.SortedKeys(all) {
		b, a := w[name], g[name]
		switch {
		case v.said[name]:
			continue
		case a == nil:
			v.differs(name, "missing")
			continue
		case b == nil:
			v.differs(name, "not in the base, and nothing that a rebuild adds")
			continue
		case a.Entry == b.Entry:
			continue // of a layer that both have
		case a.Kind != b.Kind || a.Flag != b.Flag:
			v.differs(name, "another kind of file")
			continue
		case a.Link != b.Link:
			v.differs(name, "symlink: got %q, want %q", a.Link, b.Link)
		}
		if d := a.Meta.Differs(&b.Meta); d != "" {
			v.differs(name, "%s", d)
		}
		if a.Kind == contents.KindDir {
			continue
		}
		if gotFirst, wantFirst := firstGot[a.Inode], firstWant[b.Inode]; gotFirst != wantFirst {
			v.differs(name, "hard links: got those of %s, want those of %s", gotFirst, wantFirst)
		}
		if a.Kind != contents.KindFile || seen[a.Inode] {
			continue
		}
		seen[a.Inode] = true
		switch {
		case a.Sum == nil || b.Sum == nil:
			v.differs(name, "not compared: larger than %d bytes", int64(contents.MaxELF))
		case *a.Sum != *b.Sum:
			changed = append(changed, pair{name, b.Inode, a.Inode})
		}
	}
	return changed
}

func byName(t *contents.Tree) map[string]*contents.Node {
	all := map[string]*contents.Node{}
	t.Walk(func(name string, k *contents.Node) { all[name] = k })
	return all
}

// firstNames finds the first name of each inode: two names are hard links of each other
// if it is the same.
func firstNames(names map[string]*contents.Node) map[*contents.Inode]string {
	first := map[*contents.Inode]string{}
	for name, k := range names {
		if f, ok := first[k.Inode]; !ok || name < f {
			first[k.Inode] = name
		}
	}
	return first
}

// contents says where the contents of files differ first.
func (v *comparison) contents(ctx context.Context, want, got *contents.Tree, changed []pair) error {
	if len(changed) == 0 {
		return nil
	}
	wanted, there := make([]*contents.Inode, len(changed)), make([]*contents.Inode, len(changed))
	for i, p := range changed {
		wanted[i], there[i] = p.want, p.got
	}
	w, err := want.Fetch(ctx, wanted)
	if err != nil {
		return err
	}
	g, err := got.Fetch(ctx, there)
	if err != nil {
		return err
	}
	for i, p := range changed {
		before, after := w[wanted[i]], g[there[i]]
		differ, err := firstDifference(before, after)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := v.explain(p.name, nil, differ, before, after); err != nil {
			return err
		}
		v.differs(p.name, "%v", differ)
	}
	return nil
}

// firstDifference is where two contents differ; err is of reading.
func firstDifference(want, got *io.SectionReader) (differ, err error) {
	w, g := bufio.NewReader(io.NewSectionReader(want, 0, want.Size())), bufio.NewReader(io.NewSectionReader(got, 0, got.Size()))
	for at := range min(want.Size(), got.Size()) {
		a, err := w.ReadByte()
		if err != nil {
			return nil, err
		}
		b, err := g.ReadByte()
		if err != nil {
			return nil, err
		}
		if a != b {
			return &patch.UnplannedError{Offset: at, Got: b, Want: a}, nil
		}
	}
	return fmt.Errorf("got %d bytes, want %d", got.Size(), want.Size()), nil
}

// members compares the headers of the added layer with those that vfix writes, where the layer is not
// the same. The findings of the comparison of the file systems are not repeated.
func (v *comparison) members(ctx context.Context) error {
	r, err := v.added.Uncompressed()
	if err != nil {
		return err
	}
	defer r.Close()
	want := map[string]*tar.Header{}
	if err := eachHeader(r, func(h *tar.Header) { want[path.Clean(h.Name)] = h }); err != nil {
		return err
	}
	layers, err := v.after.Src.Image.Layers()
	if err != nil {
		return err
	}
	ls, err := blob.OpenLayer(ctx, layers[len(layers)-1], v.o.Media.Progress)
	if err != nil {
		return err
	}
	defer ls.Close()
	seen := map[string]bool{}
	if err := eachHeader(ls, func(h *tar.Header) { v.header(h, want, seen) }); err != nil {
		return ls.Wrap(err)
	}
	for _, name := range contents.SortedKeys(want) {
		if !seen[name] && !v.leads(name) {
			v.out.problem("added layer: %s: missing", name)
		}
	}
	if len(v.out.Problems) == 0 {
		v.out.problem("added layer: got %v, want %v: another order of members, or bytes beside them", ls.DiffID, v.added.PlainDigest)
	}
	return ls.Finish()
}

// leads reports whether there is a problem about a file, or about one in a folder of this name.
func (v *comparison) leads(name string) bool {
	for said := range v.said {
		if said == name || strings.HasPrefix(said, name+"/") {
			return true
		}
	}
	return false
}

// eachHeader calls f for each header of a tar stream, and reads all of it.
func eachHeader(r io.Reader, f func(*tar.Header)) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		f(h)
	}
}

// header compares one header of the added layer.
func (v *comparison) header(got *tar.Header, want map[string]*tar.Header, seen map[string]bool) {
	name := path.Clean(got.Name)
	w := want[name]
	switch {
	case w == nil && v.said[name]:
		return
	case w == nil:
		v.out.problem("added layer: %s: a rebuild adds no such member, of type %q", name, got.Typeflag)
		return
	case seen[name]:
		v.out.problem("added layer: %s: a second member with this name", name)
		return
	}
	seen[name] = true
	if v.said[name] {
		return
	}
	var differ []string
	g, e := reflect.ValueOf(*got), reflect.ValueOf(*w)
	for i := range g.NumField() {
		field := g.Type().Field(i).Name
		a, b := g.Field(i).Interface(), e.Field(i).Interface()
		if field == "Xattrs" || reflect.DeepEqual(a, b) { // PAXRecords also has them
			continue
		}
		if field == "Mode" {
			a, b = fmt.Sprintf("%#o", a), fmt.Sprintf("%#o", b)
		}
		differ = append(differ, fmt.Sprintf("%s: got %v, want %v", field, a, b))
	}
	if len(differ) > 0 {
		v.out.problem("added layer: %s: tar header: %s", name, strings.Join(differ, ", "))
	}
}

// Difference is what differs between the two versions of a file, for people who want to see
// it: made where VerifyOptions' Rewriter.Explain says so.
type Difference struct {
	Path string
	// Patches are the call sites, each with the code on both sides; Edits all that changed in
	// place; Appended is how many bytes are behind the old end. Empty if the file does
	// not differ in call sites only.
	Patches  []patch.Patch
	Redirect *find.Redirect // a fix besides; nil for none
	Edits    []patch.Edit
	Appended int64
	// Unplanned is the first byte that is not as planned, and Listing the code there; nil
	// without one.
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
		var err error
		d.Listing, err = patch.ListingAt(before, before.Size(), after, after.Size(), d.Unplanned.Offset)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	case failed != nil:
		return nil
	default:
		d.Patches, d.Edits, d.Appended = proved.Patches, proved.Changed, proved.Added
		d.Redirect = proved.Redirect
	}
	v.out.Differences = append(v.out.Differences, d)
	return nil
}
