package images

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/rootpath"
)

// The merged file system: layers applied in order as an overlay engine applies them, by
// names and kinds alone.

// inode is a file of the merged file system: what all its hard links share.
type inode struct {
	*entry
	layer int // number of the layer it comes from
}

// node is a name of the merged file system.
type node struct {
	*inode
	layer int              // number of the layer the name comes from
	kids  map[string]*node // of a folder
}

// merged is a merged file system.
type merged struct {
	root   *node
	layers []*layerIndex // as applied
	// again opens a layer whose contents are needed once more, by diff ID.
	again map[v1.Hash]v1.Layer
}

// implicitDir is a folder that no layer has a member for: engines make it for root with
// this mode (containerd archive.mkparent; docker since 20.10). Its time is the one that
// archive/tar writes and reads for none.
var implicitDir = &entry{kind: kindDir, meta: meta{mode: 0o755, mtime: time.Unix(0, 0)}}

func newDir(layer int) *node {
	return &node{inode: &inode{implicitDir, layer}, layer: layer, kids: map[string]*node{}}
}

func newMerged() *merged { return &merged{root: newDir(0), again: map[v1.Hash]v1.Layer{}} }

// apply puts layer number n on top. Whiteouts hide what the layers below have and nothing
// of this layer, wherever in the archive they stand (image-spec layer.md, "Whiteouts").
func (t *merged) apply(idx *layerIndex, n int) error {
	t.layers = append(t.layers, idx)
	pool := map[string]*inode{}
	for i := range idx.entries {
		e := &idx.entries[i]
		if err := t.add(e, n, pool); err != nil {
			return fmt.Errorf("%s: %s: %w", idx.title, e.name, err)
		}
	}
	return nil
}

func (t *merged) add(e *entry, n int, pool map[string]*inode) error {
	dir, base := path.Split(e.name)
	switch e.kind {
	case kindPool:
		pool[e.name] = &inode{e, n}
		return nil
	case kindOpaque:
		d, err := t.dir(e.name, n, false)
		if d == nil {
			return err
		}
		d.hideKids(n)
		return nil
	case kindWhiteout:
		d, err := t.dir(dir, n, false)
		if d == nil {
			return err
		}
		if k := d.kids[base]; k != nil && k.hide(n) {
			delete(d.kids, base)
		}
		return nil
	}
	if e.name == "" {
		t.root.inode = &inode{e, n}
		return nil
	}
	d, err := t.dir(dir, n, true)
	if err != nil {
		return err
	}
	k := &node{inode: &inode{e, n}, layer: n}
	switch e.kind {
	case kindHardLink:
		if k.inode, err = t.target(e, n, pool); err != nil {
			return err
		}
	case kindDir:
		k.kids = map[string]*node{}
		if old := d.kids[base]; old != nil && old.kids != nil {
			k.kids = old.kids
		}
	}
	d.kids[base] = k
	return nil
}

// hide removes what the layers below n have of the subtree, and reports whether nothing
// of it is left.
func (k *node) hide(n int) bool {
	k.hideKids(n)
	return k.layer < n && len(k.kids) == 0
}

func (k *node) hideKids(n int) {
	for name, kid := range k.kids {
		if kid.hide(n) {
			delete(k.kids, name)
		}
	}
}

// target finds the file that a hard link is another name of.
func (t *merged) target(e *entry, n int, pool map[string]*inode) (*inode, error) {
	if name := inPool(e.link); name != "" && pool[name] != nil {
		return pool[name], nil
	}
	dir, base := path.Split(e.link)
	d, err := t.dir(dir, n, false)
	if err != nil {
		return nil, err
	}
	if d == nil || d.kids[base] == nil {
		return nil, damaged("hard link to %s, which does not exist", e.link)
	}
	if d.kids[base].kids != nil {
		return nil, damaged("hard link to %s, which is a folder", e.link)
	}
	return d.kids[base].inode, nil
}

// dir finds the folder with a name as an engine does: every component may be a symlink,
// and none leaves the root. What is missing is made, for layer n, where create says so;
// else the folder comes back nil. A file of a layer below gives way to a folder.
func (t *merged) dir(name string, n int, create bool) (*node, error) {
	w := &way{t: t, layer: n, create: create}
	err := rootpath.Follow(w, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return w.at[len(w.at)-1], nil
}

// way is a rootpath.Place in the merged file system.
type way struct {
	t  *merged
	at []*node // from the root to the place, for ".."
	// create says that folders that are missing are made, for a layer; file that the way may
	// end at what is no folder.
	create, file bool
	layer        int
}

func (w *way) Top() { w.at = append(w.at[:0], w.t.root) }
func (w *way) Up()  { w.at = w.at[:max(1, len(w.at)-1)] }

func (w *way) Down(name string) (string, error) {
	cur := w.at[len(w.at)-1]
	k := cur.kids[name]
	switch {
	case k != nil && k.kids != nil:
	case k != nil && k.kind == kindSymlink:
		return k.link, nil
	case w.file && k != nil:
	case !w.create:
		return "", fs.ErrNotExist
	case k != nil && k.layer == w.layer:
		return "", damaged("%s is not a folder", name)
	default:
		k = newDir(w.layer)
		cur.kids[name] = k
	}
	w.at = append(w.at, k)
	return "", nil
}

// components splits a name; empty and "." components mean nothing.
func components(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(c string) bool { return c == "" || c == "." })
}

// walk calls f for every name, in order, folders before what is in them.
func (t *merged) walk(f func(name string, k *node)) {
	var down func(prefix string, d *node)
	down = func(prefix string, d *node) {
		names := make([]string, 0, len(d.kids))
		for name := range d.kids {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			k := d.kids[name]
			f(prefix+name, k)
			if k.kids != nil {
				down(prefix+name+"/", k)
			}
		}
	}
	down("", t.root)
}

// visible is one file with all its visible names, sorted.
type visible struct {
	*inode
	names []string
	disk  *diskFile // where it is a file of a folder
}

// files returns the visible files that choose accepts, sorted by their first name.
func (t *merged) files(choose func(*inode) bool) []visible {
	at := map[*inode]int{}
	var all []visible
	t.walk(func(name string, k *node) {
		if k.kids != nil || !choose(k.inode) {
			return
		}
		i, ok := at[k.inode]
		if !ok {
			i = len(all)
			at[k.inode] = i
			all = append(all, visible{inode: k.inode})
		}
		all[i].names = append(all[i].names, name)
	})
	// walk has "lib/x" before "lib-y": sorting by the names themselves is what is promised.
	for i := range all {
		slices.Sort(all[i].names)
	}
	slices.SortFunc(all, func(a, b visible) int { return strings.Compare(a.names[0], b.names[0]) })
	return all
}
