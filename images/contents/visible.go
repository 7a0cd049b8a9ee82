// The merged file system: layers applied in order as an overlay engine applies them, by
// names and kinds alone.

package contents

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/rootpath"
)

// Inode is a file of the merged file system: what all its hard links share.
type Inode struct {
	*Entry
	Layer int // number of the layer it comes from
}

// Node is a name of the merged file system.
type Node struct {
	*Inode
	Layer int              // number of the layer the name comes from
	Kids  map[string]*Node // of a folder
}

// Tree is a merged file system.
type Tree struct {
	Root   *Node
	Layers []*layerIndex // as applied
	// Again opens a layer whose contents are needed once more, by diff ID.
	Again map[v1.Hash]v1.Layer
}

// ImplicitDir is a folder that no layer has a member for: engines make it for root with
// this mode (containerd archive.mkparent; docker since 20.10). Its time is the one that
// archive/tar writes and reads for none.
var ImplicitDir = &Entry{Kind: KindDir, Meta: Meta{Mode: 0o755, Mtime: time.Unix(0, 0)}}

func newDir(layer int) *Node {
	return &Node{Inode: &Inode{ImplicitDir, layer}, Layer: layer, Kids: map[string]*Node{}}
}

func NewTree() *Tree { return &Tree{Root: newDir(0), Again: map[v1.Hash]v1.Layer{}} }

// Apply puts layer number n on top. Whiteouts hide what the layers below have and nothing
// of this layer, wherever in the archive they stand (image-spec layer.md, "Whiteouts").
func (t *Tree) Apply(idx *layerIndex, n int) error {
	t.Layers = append(t.Layers, idx)
	pool := map[string]*Inode{}
	for i := range idx.Entries {
		e := &idx.Entries[i]
		if err := t.add(e, n, pool); err != nil {
			return fmt.Errorf("%s: %s: %w", idx.Title, e.Name, err)
		}
	}
	return nil
}

func (t *Tree) add(e *Entry, n int, pool map[string]*Inode) error {
	dir, base := path.Split(e.Name)
	switch e.Kind {
	case KindPool:
		pool[e.Name] = &Inode{e, n}
		return nil
	case KindOpaque:
		d, err := t.Dir(e.Name, n, false)
		if d == nil {
			return err
		}
		d.hideKids(n)
		return nil
	case KindWhiteout:
		d, err := t.Dir(dir, n, false)
		if d == nil {
			return err
		}
		if k := d.Kids[base]; k != nil && k.hide(n) {
			delete(d.Kids, base)
		}
		return nil
	}
	if e.Name == "" {
		t.Root.Inode = &Inode{e, n}
		return nil
	}
	d, err := t.Dir(dir, n, true)
	if err != nil {
		return err
	}
	k := &Node{Inode: &Inode{e, n}, Layer: n}
	switch e.Kind {
	case kindHardLink:
		if k.Inode, err = t.target(e, n, pool); err != nil {
			return err
		}
		k.relink(e)
	case KindDir:
		k.Kids = map[string]*Node{}
		if old := d.Kids[base]; old != nil && old.Kids != nil {
			k.Kids = old.Kids
		}
	}
	d.Kids[base] = k
	return nil
}

// relink gives an inode the metadata that the header of one more hard link says: docker and
// containerd apply each header to the file itself (containerd, archive.createTarFile). The
// kernel takes the capabilities away where the owner is set, whichever it was, so a header
// has them or they are gone. umoci passes over such headers.
func (i *Inode) relink(link *Entry) {
	m := link.Meta
	m.major, m.minor = i.Meta.major, i.Meta.minor
	if i.Kind == KindSymlink {
		m.Mode = i.Meta.Mode
	}
	m.Xattrs = maps.Clone(i.Meta.Xattrs)
	delete(m.Xattrs, capability)
	for name, value := range link.Meta.Xattrs {
		if m.Xattrs == nil {
			m.Xattrs = map[string]string{}
		}
		m.Xattrs[name] = value
	}
	e := *i.Entry
	e.Meta = m
	i.Entry = &e
}

// capability is the xattr that a change of the owner removes (Linux, notify_change).
const capability = "security.capability"

// hide removes what the layers below n have of the subtree, and reports whether nothing
// of it is left.
func (k *Node) hide(n int) bool {
	k.hideKids(n)
	return k.Layer < n && len(k.Kids) == 0
}

func (k *Node) hideKids(n int) {
	for name, kid := range k.Kids {
		if kid.hide(n) {
			delete(k.Kids, name)
		}
	}
}

// target finds the file that a hard link is another name of.
func (t *Tree) target(e *Entry, n int, pool map[string]*Inode) (*Inode, error) {
	if name := inPool(e.Link); name != "" && pool[name] != nil {
		return pool[name], nil
	}
	dir, base := path.Split(e.Link)
	d, err := t.Dir(dir, n, false)
	if err != nil {
		return nil, err
	}
	if d == nil || d.Kids[base] == nil {
		return nil, hinterr.Damaged("hard link to %s, which does not exist", e.Link)
	}
	if d.Kids[base].Kids != nil {
		return nil, hinterr.Damaged("hard link to %s, which is a directory", e.Link)
	}
	return d.Kids[base].Inode, nil
}

// Dir finds the folder with a name as an engine does: every component may be a symlink,
// and none leaves the root. What is missing is made, for layer n, where create says so;
// else the folder comes back nil. A file of a layer below gives way to a folder.
func (t *Tree) Dir(name string, n int, create bool) (*Node, error) {
	w := &Way{T: t, layer: n, create: create}
	err := rootpath.Follow(w, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return w.At[len(w.At)-1], nil
}

// Way is a rootpath.Place in the merged file system.
type Way struct {
	T  *Tree
	At []*Node // from the root to the place, for ".."
	// create says that folders that are missing are made, for a layer; file that the way may
	// end at what is no folder.
	create, File bool
	layer        int
}

func (w *Way) Top() { w.At = append(w.At[:0], w.T.Root) }
func (w *Way) Up()  { w.At = w.At[:max(1, len(w.At)-1)] }

func (w *Way) Down(name string) (string, error) {
	cur := w.At[len(w.At)-1]
	k := cur.Kids[name]
	switch {
	case k != nil && k.Kids != nil:
	case k != nil && k.Kind == KindSymlink:
		return k.Link, nil
	case w.File && k != nil:
	case !w.create:
		return "", fs.ErrNotExist
	case k != nil && k.Layer == w.layer:
		return "", hinterr.Damaged("%s is not a directory", name)
	default:
		k = newDir(w.layer)
		cur.Kids[name] = k
	}
	w.At = append(w.At, k)
	return "", nil
}

// Components splits a name; empty and "." components mean nothing.
func Components(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(c string) bool { return c == "" || c == "." })
}

// Walk calls f for every name, in order, folders before what is in them.
func (t *Tree) Walk(f func(name string, k *Node)) {
	var down func(prefix string, d *Node)
	down = func(prefix string, d *Node) {
		names := make([]string, 0, len(d.Kids))
		for name := range d.Kids {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			k := d.Kids[name]
			f(prefix+name, k)
			if k.Kids != nil {
				down(prefix+name+"/", k)
			}
		}
	}
	down("", t.Root)
}

// visible is one file with all its visible names, sorted.
type visible struct {
	*Inode
	Names []string
	Disk  *diskFile // where it is a file of a folder
}

// files returns the visible files that choose accepts, sorted by their first name.
func (t *Tree) files(choose func(*Inode) bool) []visible {
	at := map[*Inode]int{}
	var all []visible
	t.Walk(func(name string, k *Node) {
		if k.Kids != nil || !choose(k.Inode) {
			return
		}
		i, ok := at[k.Inode]
		if !ok {
			i = len(all)
			at[k.Inode] = i
			all = append(all, visible{Inode: k.Inode})
		}
		all[i].Names = append(all[i].Names, name)
	})
	// walk has "lib/x" before "lib-y": sorting by the names themselves is what is promised.
	for i := range all {
		slices.Sort(all[i].Names)
	}
	slices.SortFunc(all, func(a, b visible) int { return strings.Compare(a.Names[0], b.Names[0]) })
	return all
}

// Find returns the node with a name, every component but the last followed through
// symlinks; nil where there is none.
func (t *Tree) Find(name string) *Node {
	d, err := t.Dir(path.Dir(name), 0, false)
	if d == nil || err != nil {
		return nil
	}
	return d.Kids[path.Base(name)]
}
