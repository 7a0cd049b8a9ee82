// The tree: a file system of any origin. Layers of an image, a tarball and a directory on disk are merged into one.

package contents

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/rootpath"
)

// Inode is a file of the merged file system: what all its hard links share.
type Inode struct {
	*Entry
	Layer int // number of the layer it comes from
}

// origin names the entry that an inode's content comes from: in what different engines show, it
// is another inode with the same origin.
type origin struct {
	layer  int32
	number uint32
}

func (i *Inode) origin() origin { return origin{int32(i.Layer), i.Number} }

// HasContent reports whether it is a regular file.
func (i *Inode) HasContent() bool { return i.Kind == KindFile || i.Kind == KindPool }

// Node is a name of the merged file system.
type Node struct {
	*Inode
	Kids  map[string]*Node // of a folder
	Named int32            // number of the layer the name comes from
	// Implied says of a folder that the last layer with files in it has no entry for it:
	// docker's overlay2 shows it as ImplicitDir, other engines as the layers below have it.
	Implied bool
	// opaque says of a folder of one layer that it hides what the layers below have in it.
	opaque bool
}

// Tree is a merged file system, as overlay engines show it.
type Tree struct {
	Root   *Node
	Layers []*layerIndex // as applied
	// from is where the contents of each layer are, spool where those are kept that are needed again; disk is
	// what a tree of a directory was read from.
	from  []members
	spool *blob.Spool
	disk  *Disk
	// Others are the views of other engines of the same layers, if they differ.
	Others []*Tree
	// Engines says which ones show this tree, of one of Others.
	Engines string
}

// ImplicitDir is a folder that no layer has a member for: engines make it for root with
// this mode (containerd archive.mkparent; docker since 20.10). Its time is the one that
// archive/tar writes and reads for none.
var ImplicitDir = &Entry{Kind: KindDir, Meta: Meta{Mode: 0o755, Mtime: time.Unix(0, 0)}}

func newDir(layer int) *Node {
	return &Node{Inode: &Inode{ImplicitDir, layer}, Named: int32(layer), Kids: map[string]*Node{}, Implied: true}
}

// NewTree is an empty file system: a root folder that no layer has.
func NewTree() *Tree { return &Tree{Root: newDir(0)} }

// Dir finds the folder with a name as an engine does: every component may be a symlink,
// and none leaves the root. Missing parts are made, for layer n, if create says so;
// else the folder comes back nil.
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
	// end at anything but a folder.
	create, File bool
	layer        int
}

// Top, Up and Down are those of rootpath.Place.
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
	case k != nil && k.Kind != KindWhiteout:
		return "", hinterr.Damaged("%s is not a directory", name)
	default:
		hides := k != nil // a whiteout is of the layers below, and not of what follows it
		k = newDir(w.layer)
		k.opaque = hides
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

// Entries are those of an archive with the tree's files, by name: of a file with several names, the first one has it and
// the others are hard links. The root's name is "".
func (t *Tree) Entries() map[string]*Entry {
	all, first := map[string]*Entry{"": t.Root.Entry}, map[*Inode]string{}
	t.Walk(func(name string, k *Node) {
		if to, known := first[k.Inode]; known {
			all[name] = &Entry{Kind: kindHardLink, Name: name, Link: to, Meta: k.Meta}
			return
		}
		first[k.Inode], all[name] = name, k.Entry
	})
	return all
}

// Find returns the node with a name, every component but the last followed through
// symlinks; or nil.
func (t *Tree) Find(name string) *Node {
	d, err := t.Dir(path.Dir(name), 0, false)
	if d == nil || err != nil {
		return nil
	}
	return d.Kids[path.Base(name)]
}
