// The tree: a file system of any origin, merged from the layers of an image, a tarball or a directory on disk.

package contents

import (
	"archive/tar"
	"io/fs"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/rewriter/patch"
)

// Inode is a file of the merged file system, shared by all its hard links.
type Inode struct {
	*Entry
	Layer int // number of its layer
}

// Node is a name of the merged file system.
type Node struct {
	*Inode
	Kids map[string]*Node // of a directory
	// Implied reports that the last layer with files in a directory has no entry for it: docker's overlay2 shows
	// it as ImplicitDir, other engines as in the layers below.
	Implied bool
	// opaque reports that a directory of one layer hides its contents in the layers below.
	opaque bool
}

// Tree is a merged file system as overlay engines show it.
type Tree struct {
	Root   *Node
	Layers []*layerIndex // as applied
	from   []opener      // the tar stream of each layer
}

func newDir(layer int) *Node {
	return &Node{Inode: &Inode{ImplicitDir, layer}, Kids: map[string]*Node{}, Implied: true}
}

// NewTree returns an empty file system, with a root directory that no layer has.
func NewTree() *Tree { return &Tree{Root: newDir(0)} }

// Dir finds the directory with a name as an engine does: every component may be a symlink, and none leaves the
// root. With create it creates missing parts, for layer n; otherwise the directory is nil.
func (t *Tree) Dir(name string, n int, create bool) (*Node, error) {
	if k := t.At(name); k != nil && k.Kids != nil {
		return k, nil
	}
	real, err := t.Resolve(name)
	if err != nil {
		return nil, err
	}
	d := t.Root
	for _, c := range Components(real) {
		k := d.Kids[c]
		switch {
		case k != nil && k.Kids != nil:
		case !create:
			return nil, nil
		case k != nil && k.Typeflag != typeWhiteout:
			return nil, hinterr.Damaged("%s is not a directory", c)
		default:
			hides := k != nil // a whiteout hides the layers below, but not later entries
			k = newDir(n)
			k.opaque = hides
			d.Kids[c] = k
		}
		d = k
	}
	return d, nil
}

// Components splits a name, without empty and "." components.
func Components(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(c string) bool { return c == "" || c == "." })
}

// Walk calls f for every name, in order, directories before their contents.
func (t *Tree) Walk(f func(name string, k *Node)) {
	var down func(prefix string, d *Node)
	down = func(prefix string, d *Node) {
		for _, name := range SortedKeys(d.Kids) {
			k := d.Kids[name]
			f(prefix+name, k)
			if k.Kids != nil {
				down(prefix+name+"/", k)
			}
		}
	}
	down("", t.Root)
}

// Entries returns the entries of an archive of the tree, by name: the first name of a file is a file, its others
// are hard links. The root's name is "".
func (t *Tree) Entries() map[string]*Entry {
	all, first := map[string]*Entry{"": t.Root.Entry}, map[*Inode]string{}
	t.Walk(func(name string, k *Node) {
		if to, known := first[k.Inode]; known {
			all[name] = &Entry{Header: *k.linkAs(name, to)}
			return
		}
		first[k.Inode], all[name] = name, k.Entry
	})
	return all
}

// Find returns the node with a name, following symlinks in all components except the last; nil if there is none.
func (t *Tree) Find(name string) *Node {
	d, _ := t.Dir(path.Dir(name), 0, false)
	if d == nil {
		return nil
	}
	return d.Kids[path.Base(name)]
}

// At returns the node of a name from Walk, which has no symlinks in it; nil if the tree does not have it.
func (t *Tree) At(name string) *Node {
	k := t.Root
	for _, c := range Components(name) {
		if k = k.Kids[c]; k == nil {
			return nil
		}
	}
	return k
}

// Resolve returns the path that a name leads to, with all symlinks followed.
func (t *Tree) Resolve(name string) (string, error) {
	return rootpath.Resolve(name, func(real string) (string, error) {
		switch k := t.At(real); {
		case k == nil:
			return "", fs.ErrNotExist
		case k.Typeflag == tar.TypeSymlink:
			return k.Linkname, nil
		}
		return "", nil
	})
}

// Target is one file with its names, in the order of Walk; the first is the one with the content in a layer.
type Target struct {
	*Inode
	Names []string
	Plan  *patch.Plan // the changes of its references to the page, if the file was judged
}

// Files returns the inodes, except directories, that choose accepts, with their names, sorted by their first names.
func (t *Tree) Files(choose func(*Inode) bool) []Target {
	at := map[*Inode]int{}
	var all []Target
	t.Walk(func(name string, k *Node) {
		if k.Kids != nil || !choose(k.Inode) {
			return
		}
		i, known := at[k.Inode]
		if !known {
			i, all = len(all), append(all, Target{Inode: k.Inode})
			at[k.Inode] = i
		}
		all[i].Names = append(all[i].Names, name)
	})
	return sorted(all)
}

// sorted sorts files by their first names, and the names of each: Walk has "lib/x" before "lib-y".
func sorted(files []Target) []Target {
	for _, f := range files {
		slices.Sort(f.Names)
	}
	slices.SortFunc(files, func(a, b Target) int { return strings.Compare(a.Names[0], b.Names[0]) })
	return files
}
