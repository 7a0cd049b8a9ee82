// A statement is checked against the bytes of the image that it is about. The base's layers are in
// the derived image, so each file before and after is at hand, and the bytes that the statement
// names must lead from one to the other. What it calls them is compared with what the rewriter
// finds out about both.

package images

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/rewriter"
)

// claims is one such check.
type claims struct {
	st       *provenance.Statement
	after    *contents.Subject
	base     *contents.Tree // what the layers below the added one show
	added    int            // number of the added layer
	named    map[string]bool
	problems []string
	skipped  []string // what is not checked, and why
	options  rewriter.Options
}

// skip notes members of the statement that are not checked, by their names in it.
func (c *claims) skip(members, format string, args ...any) {
	c.skipped = append(c.skipped, "statement: "+members+": "+fmt.Sprintf(format, args...))
}

func (c *claims) problem(format string, args ...any) {
	c.problems = append(c.problems, "statement: "+fmt.Sprintf(format, args...))
}

// checkStatement finds one problem for each thing in which the image is not as stated; an error
// is of reading the image.
func checkStatement(ctx context.Context, s *contents.Session, stated *provenance.Stated, after *contents.Subject) (*claims, error) {
	c := &claims{st: stated.Statement, after: after, named: map[string]bool{}, options: s.Options}
	if unknown, err := stated.Unknown(); err != nil {
		return nil, err
	} else if unknown {
		c.skip("some members", "this version of vfix does not know them")
	}
	if err := c.identity(); err != nil {
		return nil, err
	}
	if !c.layers() {
		return c, nil
	}
	var err error
	if c.base, err = contents.Merge(after.T.Layers[:c.added]); err != nil {
		return nil, err
	}
	c.base.Again = after.T.Again
	if err := c.files(ctx, s.FetchLayers(c.base)); err != nil {
		return nil, err
	}
	if err := c.contents(ctx); err != nil {
		return nil, err
	}
	if err := c.kept(ctx, s.FetchLayers(c.base)); err != nil {
		return nil, err
	}
	c.nothingElse()
	return c, c.origin()
}

// layers compares which layers there are, and reports whether the others can be told apart
// from the added one.
func (c *claims) layers() bool {
	stated := append(slices.Clone(c.st.Predicate.Base.Layers), c.st.Predicate.Derived.AddedLayer)
	layers := c.after.T.Layers
	if len(layers) != len(stated) {
		c.problem("got %d layers, stated %d", len(layers), len(stated))
		return false
	}
	for i, l := range layers {
		if l.DiffID.String() != stated[i] {
			c.problem("layer %d: got %v, stated %s", i, l.DiffID, stated[i])
			return false
		}
	}
	c.added = len(layers) - 1
	return true
}

// real is the name that a stated one is of: JSON has U+FFFD for each byte that is not UTF-8,
// and so has a Go string that was a list of runes.
func (c *claims) real(stated string) string {
	if strings.ContainsRune(stated, utf8.RuneError) {
		for _, e := range c.after.T.Layers[c.added].Entries {
			if string([]rune(e.Name)) == stated {
				return e.Name
			}
		}
	}
	return stated
}

// both returns a stated file on both sides. It must be a file of the added layer.
func (c *claims) both(stated string) (before, after *contents.Node) {
	name := c.real(stated)
	before, after = c.base.Shown(name), c.after.T.At(name)
	switch {
	case after == nil || after.Kind != contents.KindFile || after.Layer != c.added:
		c.problem("%s: no file of the added layer", name)
	case before == nil || before.Kind != contents.KindFile:
		c.problem("%s: no file of the base", name)
	default:
		c.named[name] = true
		return before, after
	}
	return nil, nil
}

// files checks the patched files and the package databases.
func (c *claims) files(ctx context.Context, fetchBase fallback.Fetcher) error {
	type claim struct {
		provenance.StatedFile
		patched       bool // else a package database
		before, after *contents.Node
	}
	var all []claim
	var befores, afters []*contents.Inode
	add := func(f provenance.StatedFile, patched bool) {
		b, a := c.both(f.Path)
		if b == nil {
			return
		}
		all = append(all, claim{f, patched, b, a})
		befores, afters = append(befores, b.Inode), append(afters, a.Inode)
	}
	for _, f := range c.st.Predicate.Files {
		add(f, true)
	}
	for _, d := range c.st.Predicate.Databases {
		add(provenance.StatedFile{StatedChange: d}, false)
	}
	if len(all) == 0 {
		return nil
	}
	before, err := fetchBase(ctx, befores)
	if err != nil {
		return err
	}
	after, err := c.after.Fetch(ctx, afters)
	if err != nil {
		return err
	}
	for _, f := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.change(f.StatedChange, before[f.before.Inode], after[f.after.Inode]); err != nil {
			return err
		}
		if f.patched {
			if err := c.patched(&f.StatedFile, f.before, f.after, before[f.before.Inode], after[f.after.Inode]); err != nil {
				return err
			}
		} else if d := f.after.Meta.Differs(&f.before.Meta); d != "" {
			c.problem("%s: %s", f.Path, d)
		}
	}
	return nil
}

// change compares both contents with their stated hashes.
func (c *claims) change(f provenance.StatedChange, before, after *io.SectionReader) error {
	for _, side := range []struct {
		name   string
		r      *io.SectionReader
		stated blob.StatedBytes
	}{{"before", before, f.Before}, {"after", after, f.After}} {
		got, err := blob.HashOf(io.NewSectionReader(side.r, 0, side.r.Size()))
		if err != nil {
			return err
		}
		if got != side.stated {
			c.problem("%s: %s: got %d bytes with sha256 %s, stated %d with %s", f.Path, side.name, got.Size, got.SHA256, side.stated.Size, side.stated.SHA256)
		}
	}
	return nil
}

// patched checks that the stated runs of bytes, and what is appended, make the one file of
// the other, and that nothing else of the file changed.
func (c *claims) patched(f *provenance.StatedFile, b, a *contents.Node, before, after *io.SectionReader) error {
	if d := a.Meta.Differs(b.Meta.Unmarked()); d != "" {
		c.problem("%s: %s", f.Path, d)
	}
	if got := contents.Marks(b.Meta.Xattrs); !slices.Equal(got, f.Dropped) {
		c.problem("%s: dropped xattrs: got %q, stated %q", f.Path, got, f.Dropped)
	}
	if got := c.after.T.Layers[b.Inode.Layer].DiffID.String(); got != f.Layer {
		c.problem("%s: got a file of layer %s, stated %s", f.Path, got, f.Layer)
	}
	for _, stated := range f.Links {
		name := c.real(stated)
		k := c.after.T.At(name)
		if k == nil || k.Inode != a.Inode {
			c.problem("%s: no hard link of %s", name, f.Path)
			continue
		}
		c.named[name] = true
	}
	runs := make([]provenance.StatedRun, 0, len(f.Sites)+len(f.Edits))
	for _, s := range f.Sites {
		runs = append(runs, s.StatedRun)
	}
	for _, e := range f.Edits {
		runs = append(runs, e.StatedRun)
	}
	expected, why, err := provenance.ApplyRuns(runs, before)
	if err != nil {
		return err
	}
	if why != "" {
		c.problem("%s: %s", f.Path, why)
		return nil
	}
	if after.Size() < before.Size() {
		c.problem("%s: got %d bytes, fewer than the %d before", f.Path, after.Size(), before.Size())
		return nil
	}
	tail := io.NewSectionReader(after, before.Size(), after.Size()-before.Size())
	if got, err := blob.HashOf(tail); err != nil {
		return err
	} else if got != f.Appended {
		c.problem("%s: appended: got %d bytes with sha256 %s, stated %d with %s", f.Path, got.Size, got.SHA256, f.Appended.Size, f.Appended.SHA256)
	}
	head := io.NewSectionReader(after, 0, before.Size())
	at, err := provenance.FirstDifference(expected, head)
	if err != nil {
		return err
	}
	if at >= 0 {
		c.problem("%s: offset %#x: changed, and not as stated", f.Path, at)
		return nil
	}
	proved, err := rewriter.Verify(before, before.Size(), after, after.Size(), c.options)
	if err != nil {
		c.skip("files[].sites[].vaddr, files[].sites[].function, files[].sites[].symbol, files[].sites[].form, files[].edits[].what",
			"%s: this version of vfix patches the file in another way: %v", f.Path, err)
		return nil
	}
	for _, text := range f.Misnamed(proved) {
		c.problem("%s: %s", f.Path, text)
	}
	return nil
}

// contents checks the files that only the result has.
func (c *claims) contents(ctx context.Context) error {
	var nodes []*contents.Inode
	stated := map[*contents.Inode]provenance.StatedContent{}
	for _, s := range c.st.Predicate.Added {
		k := c.after.T.At(s.Path)
		if k == nil || k.Named != c.added || k.Kids != nil {
			c.problem("%s: no file of the added layer", s.Path)
			continue
		}
		c.named[s.Path] = true
		if s.Link != "" || k.Kind != contents.KindFile {
			if k.Kind != contents.KindSymlink || k.Link != s.Link {
				c.problem("%s: got no symlink to %q, as stated", s.Path, s.Link)
			}
			continue
		}
		nodes = append(nodes, k.Inode)
		stated[k.Inode] = s
	}
	if len(nodes) == 0 {
		return nil
	}
	got, err := c.after.Fetch(ctx, nodes)
	if err != nil {
		return err
	}
	for _, i := range nodes {
		is, err := blob.HashOf(got[i])
		if err != nil {
			return err
		}
		if s := stated[i]; is.SHA256 != s.SHA256 {
			c.problem("%s: got sha256 %s, stated %s", s.Path, is.SHA256, s.SHA256)
		}
	}
	return nil
}

// kept checks the files that are written once more as they were, because a patched one stands where
// some engines have them.
func (c *claims) kept(ctx context.Context, fetchBase fallback.Fetcher) error {
	written := map[*contents.Inode][]string{}
	for _, f := range c.st.Predicate.Files {
		if b := c.base.Shown(c.real(f.Path)); b != nil {
			written[b.Inode] = append([]string{f.Path}, f.Links...)
		}
	}
	for b, names := range c.base.Kept(written) {
		a := c.after.T.At(names[0])
		if a == nil || a.Kind != contents.KindFile || a.Layer != c.added {
			c.problem("%s: not written again as it was", names[0])
			continue
		}
		before, err := fetchBase(ctx, []*contents.Inode{b})
		if err != nil {
			return err
		}
		after, err := c.after.Fetch(ctx, []*contents.Inode{a.Inode})
		if err != nil {
			return err
		}
		was, err := blob.HashOf(before[b])
		if err != nil {
			return err
		}
		is, err := blob.HashOf(after[a.Inode])
		if err != nil {
			return err
		}
		if d := a.Meta.Differs(&b.Meta); was != is || d != "" {
			c.problem("%s: written again, and not as it was: %s", names[0], d)
			continue
		}
		for _, name := range names {
			c.named[name] = true
		}
	}
	return nil
}

// nothingElse checks that the added layer has nothing that is not stated, but for the
// folders on the way, which are as they were.
func (c *claims) nothingElse() {
	for _, e := range c.after.T.Layers[c.added].Entries {
		switch {
		case e.Kind == contents.KindWhiteout || e.Kind == contents.KindOpaque:
			c.problem("%s: the added layer deletes it", e.Name)
		case e.Kind != contents.KindDir:
			if !c.named[e.Name] {
				c.problem("%s: in the added layer, and not stated", e.Name)
			}
		default:
			b := c.base.At(e.Name)
			if b == nil && !c.leadsSomewhere(e.Name) {
				c.problem("%s: in the added layer, and not stated", e.Name)
			}
			if b != nil {
				if d := e.Meta.Differs(&b.Meta); d != "" {
					c.problem("%s: %s", e.Name, d)
				}
			}
		}
	}
}

// leadsSomewhere reports whether a stated file is in the folder.
func (c *claims) leadsSomewhere(dir string) bool {
	for name := range c.named {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}
