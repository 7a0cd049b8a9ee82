package images

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// A statement is checked against the bytes of the image that it is about. That takes no
// planner and no knowledge of ELF: the base's layers are in the derived image, so each file
// before and after is at hand, and what the statement says of one must lead to the other.

// claims is one such check.
type claims struct {
	st       *Statement
	after    *subject
	base     *merged // what the layers below the added one show
	added    int     // number of the added layer
	named    map[string]bool
	problems []string
}

func (c *claims) problem(format string, args ...any) {
	c.problems = append(c.problems, "statement: "+fmt.Sprintf(format, args...))
}

// checkStatement returns one line for each thing in which the image is not as stated; an
// error is of reading the image.
func checkStatement(ctx context.Context, s *session, st *Statement, after *subject) ([]string, error) {
	c := &claims{st: st, after: after, named: map[string]bool{}}
	if err := c.identity(); err != nil {
		return nil, err
	}
	if !c.layers() {
		return c.problems, nil
	}
	c.base = newMerged()
	c.base.again = after.t.again
	for i, l := range after.t.layers[:c.added] {
		if err := c.base.apply(l, i); err != nil {
			return nil, err
		}
	}
	if err := c.files(ctx, s.fetchLayers(c.base)); err != nil {
		return nil, err
	}
	if err := c.contents(ctx); err != nil {
		return nil, err
	}
	c.nothingElse()
	return c.problems, nil
}

// identity compares what the image is.
func (c *claims) identity() error {
	src := c.after.src
	digests, err := digestsOf(src)
	if err != nil {
		return err
	}
	if !c.st.hasSubject(digests) {
		c.problem("it is about another image: none of its %d subjects is %v", len(c.st.Subject), src.Ref)
	}
	config := digests[0]
	if got := c.st.Predicate.Derived.Config[config.Algorithm]; got != config.Hex {
		c.problem("image config: got %v, stated %s", config, got)
	}
	return nil
}

// layers compares which layers there are, and reports whether the others can be told apart
// from the added one.
func (c *claims) layers() bool {
	stated := append(slices.Clone(c.st.Predicate.Base.Layers), c.st.Predicate.Derived.AddedLayer)
	layers := c.after.t.layers
	if len(layers) != len(stated) {
		c.problem("got %d layers, stated %d", len(layers), len(stated))
		return false
	}
	for i, l := range layers {
		if l.diffID.String() != stated[i] {
			c.problem("layer %d: got %v, stated %s", i, l.diffID, stated[i])
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
		for _, e := range c.after.t.layers[c.added].entries {
			if string([]rune(e.name)) == stated {
				return e.name
			}
		}
	}
	return stated
}

// both returns a stated file on both sides. It must be a file of the added layer.
func (c *claims) both(stated string) (before, after *node) {
	name := c.real(stated)
	before, after = c.base.at(name), c.after.t.at(name)
	switch {
	case after == nil || after.kind != kindFile || after.layer != c.added:
		c.problem("%s: no file of the added layer", name)
	case before == nil || before.kind != kindFile:
		c.problem("%s: no file of the base", name)
	default:
		c.named[name] = true
		return before, after
	}
	return nil, nil
}

// files checks the patched files and the package databases.
func (c *claims) files(ctx context.Context, fetchBase fetcher) error {
	type claim struct {
		StatedFile
		patched       bool // else a package database
		before, after *node
	}
	var all []claim
	var befores, afters []*inode
	add := func(f StatedFile, patched bool) {
		b, a := c.both(f.Path)
		if b == nil {
			return
		}
		all = append(all, claim{f, patched, b, a})
		befores, afters = append(befores, b.inode), append(afters, a.inode)
	}
	for _, f := range c.st.Predicate.Files {
		add(f, true)
	}
	for _, d := range c.st.Predicate.Databases {
		add(StatedFile{StatedChange: d}, false)
	}
	if len(all) == 0 {
		return nil
	}
	before, err := fetchBase(ctx, befores)
	if err != nil {
		return err
	}
	after, err := c.after.fetch(ctx, afters)
	if err != nil {
		return err
	}
	for _, f := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.change(f.StatedChange, before[f.before.inode], after[f.after.inode]); err != nil {
			return err
		}
		if f.patched {
			if err := c.patched(&f.StatedFile, f.before, f.after, before[f.before.inode], after[f.after.inode]); err != nil {
				return err
			}
		} else if d := f.after.meta.differs(&f.before.meta); d != "" {
			c.problem("%s: %s", f.Path, d)
		}
	}
	return nil
}

// change compares both contents with their stated hashes.
func (c *claims) change(f StatedChange, before, after *io.SectionReader) error {
	for _, side := range []struct {
		name   string
		r      *io.SectionReader
		stated StatedBytes
	}{{"before", before, f.Before}, {"after", after, f.After}} {
		got, err := hashOf(io.NewSectionReader(side.r, 0, side.r.Size()))
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
func (c *claims) patched(f *StatedFile, b, a *node, before, after *io.SectionReader) error {
	if d := a.meta.differs(b.meta.unmarked()); d != "" {
		c.problem("%s: %s", f.Path, d)
	}
	if got := marks(b.meta.xattrs); !slices.Equal(got, f.Dropped) {
		c.problem("%s: dropped xattrs: got %q, stated %q", f.Path, got, f.Dropped)
	}
	if got := c.after.t.layers[b.inode.layer].diffID.String(); got != f.Layer {
		c.problem("%s: got a file of layer %s, stated %s", f.Path, got, f.Layer)
	}
	for _, stated := range f.Links {
		name := c.real(stated)
		k := c.after.t.at(name)
		if k == nil || k.inode != a.inode {
			c.problem("%s: no hard link of %s", name, f.Path)
			continue
		}
		c.named[name] = true
	}
	runs := make([]StatedRun, 0, len(f.Sites)+len(f.Edits))
	for _, s := range f.Sites {
		runs = append(runs, s.StatedRun)
	}
	for _, e := range f.Edits {
		runs = append(runs, e.StatedRun)
	}
	expected, why, err := applyRuns(runs, before)
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
	if got, err := hashOf(tail); err != nil {
		return err
	} else if got != f.Appended {
		c.problem("%s: appended: got %d bytes with sha256 %s, stated %d with %s", f.Path, got.Size, got.SHA256, f.Appended.Size, f.Appended.SHA256)
	}
	head := io.NewSectionReader(after, 0, before.Size())
	at, err := firstDifference(expected, head)
	if err != nil {
		return err
	}
	if at >= 0 {
		c.problem("%s: offset %#x: changed, and not as stated", f.Path, at)
	}
	return nil
}

// contents checks the files that only the result has.
func (c *claims) contents(ctx context.Context) error {
	var nodes []*inode
	stated := map[*inode]StatedContent{}
	for _, s := range c.st.Predicate.Added {
		k := c.after.t.at(s.Path)
		if k == nil || k.layer != c.added || k.kids != nil {
			c.problem("%s: no file of the added layer", s.Path)
			continue
		}
		c.named[s.Path] = true
		if s.Link != "" || k.kind != kindFile {
			if k.kind != kindSymlink || k.link != s.Link {
				c.problem("%s: got no symlink to %q, as stated", s.Path, s.Link)
			}
			continue
		}
		nodes = append(nodes, k.inode)
		stated[k.inode] = s
	}
	if len(nodes) == 0 {
		return nil
	}
	got, err := c.after.fetch(ctx, nodes)
	if err != nil {
		return err
	}
	for _, i := range nodes {
		is, err := hashOf(got[i])
		if err != nil {
			return err
		}
		if s := stated[i]; is.SHA256 != s.SHA256 {
			c.problem("%s: got sha256 %s, stated %s", s.Path, is.SHA256, s.SHA256)
		}
	}
	return nil
}

// nothingElse checks that the added layer has nothing that is not stated, but for the
// folders on the way, which are as they were.
func (c *claims) nothingElse() {
	for _, e := range c.after.t.layers[c.added].entries {
		switch {
		case e.kind == kindWhiteout || e.kind == kindOpaque:
			c.problem("%s: the added layer deletes it", e.name)
		case e.kind != kindDir:
			if !c.named[e.name] {
				c.problem("%s: in the added layer, and not stated", e.name)
			}
		default:
			b := c.base.at(e.name)
			if b == nil && !c.leadsSomewhere(e.name) {
				c.problem("%s: in the added layer, and not stated", e.name)
			}
			if b != nil {
				if d := e.meta.differs(&b.meta); d != "" {
					c.problem("%s: %s", e.name, d)
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
