// Package contents is the file system of an image, a directory or a tarball: its visible files, merged from its layers,
// those that call the vsyscall page, and the layer that is added.
package contents

import (
	"archive/tar"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/rootpath"
)

// Inode is a file of the merged file system, shared by all its hard links.
type Inode struct {
	*Entry
	Layer int // number of its layer
}

// Node is a name of the merged file system.
type Node struct {
	*Inode
	// Implied reports that the last layer with files in a directory has no entry for it: docker's overlay2 shows
	// it as ImplicitDir, other engines as in the layers below.
	Implied bool
	// opaque reports that a directory of one layer hides its contents in the layers below.
	opaque bool
}

// IsDir reports whether the name is a directory.
func (k *Node) IsDir() bool { return k.Typeflag == tar.TypeDir }

// Tree is a merged file system as overlay engines show it.
type Tree struct {
	nodes  map[string]*Node // by their paths without symlinks; "" is the root
	Layers []*layerIndex    // as applied
	// Of an image: what a container of it starts, its layers, and who hears of it when they are read again.
	Config   v1.Config
	image    []v1.Layer
	progress progress.Reporter
}

// NewTree returns an empty file system, with a root directory that no layer has.
func NewTree() *Tree { return &Tree{nodes: map[string]*Node{"": newDir(0)}} }

func newDir(layer int) *Node { return &Node{Inode: &Inode{ImplicitDir, layer}, Implied: true} }

// At returns the node of a path without symlinks; nil if the tree does not have it.
func (t *Tree) At(name string) *Node { return t.nodes[name] }

// Resolve returns the path that a name leads to as for an engine: each component may be a symlink, and none leaves the
// root. A name that the tree does not have is taken literally.
func (t *Tree) Resolve(name string) (string, error) {
	return rootpath.Resolve(name, func(real string) (string, error) {
		switch k := t.nodes[real]; {
		case k == nil, k.Typeflag == typeWhiteout:
			return "", fs.ErrNotExist
		case k.Typeflag == tar.TypeSymlink:
			return k.Linkname, nil
		}
		return "", nil
	})
}

// place returns the path of a name whose last component is not followed.
func (t *Tree) place(name string) (string, error) {
	dir, base := path.Split(name)
	real, err := t.Resolve(dir)
	if at := path.Join(real, base); at != name {
		return at, err
	}
	return name, err // the same string, once in memory
}

// Find returns the node with a name, following symlinks in all components except the last; nil if it does not exist.
func (t *Tree) Find(name string) *Node {
	at, err := t.place(strings.Trim(name, "/"))
	if err != nil {
		return nil
	}
	return t.nodes[at]
}

// starts reports whether a file is the program that a container of the image starts. A name without a slash is looked
// for in the directories of programs.
func (t *Tree) starts(i *Inode) bool {
	if t == nil {
		return false
	}
	for _, word := range slices.Concat(t.Config.Entrypoint, t.Config.Cmd) {
		if word == addedfiles.TracePath {
			continue
		}
		dirs := rootpath.Programs
		if strings.Contains(word, "/") {
			dirs = []string{""}
		}
		return slices.ContainsFunc(dirs, func(dir string) bool {
			real, err := t.Resolve(path.Join(dir, word))
			return err == nil && t.nodes[real] != nil && t.nodes[real].Inode == i
		})
	}
	return false
}

// parent returns the path of a directory; the root's is the root.
func parent(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }

// makeDirs makes sure that a path without symlinks is a directory, as an engine does: it creates what is missing, for
// layer n.
func (t *Tree) makeDirs(name string, n int) error {
	for ; ; name = parent(name) {
		k := t.nodes[name]
		switch {
		case k == nil, k.Typeflag == typeWhiteout:
			d := newDir(n)
			d.opaque = k != nil // a whiteout hides the layers below, but not later entries
			t.nodes[name] = d
		case k.IsDir():
			return nil
		default:
			return hinterr.Damaged("%s is not a directory", name)
		}
	}
}

// removeBelow removes the contents of directories.
func (t *Tree) removeBelow(dirs map[string]bool) {
	if len(dirs) == 0 {
		return
	}
	maps.DeleteFunc(t.nodes, func(name string, _ *Node) bool {
		for name != "" {
			if name = parent(name); dirs[name] {
				return true
			}
		}
		return false
	})
}

// Names returns the names in the tree in order, directories before their contents: the first is the root's, "".
func (t *Tree) Names() []string { return SortedKeys(t.nodes) }

// Entries returns the entries of an archive of the tree, by name: the first name of a file is a file, its others
// are hard links. The root's name is "".
func (t *Tree) Entries() map[string]*Entry {
	all := map[string]*Entry{}
	for name, k := range t.nodes {
		all[name] = k.Entry
	}
	for _, f := range t.Files(func(*Inode) bool { return true }) {
		for _, name := range f.Names[1:] {
			all[name] = &Entry{Header: *f.linkAs(name, f.Names[0])}
		}
	}
	return all
}

// Target is one file with its names, sorted; the first is the one with the content in a layer.
type Target struct {
	*Inode
	Names []string
}

// Files returns the inodes, except directories, that choose accepts, with their names, sorted by their first names.
func (t *Tree) Files(choose func(*Inode) bool) []*Target {
	all := map[*Inode]*Target{}
	for name, k := range t.nodes {
		if !k.IsDir() && choose(k.Inode) {
			addName(all, k.Inode, name)
		}
	}
	return sorted(slices.Collect(maps.Values(all)))
}

// addName adds a name of a file to targets.
func addName(all map[*Inode]*Target, i *Inode, name string) {
	if all[i] == nil {
		all[i] = &Target{Inode: i}
	}
	all[i].Names = append(all[i].Names, name)
}

// sorted sorts files by their first names, and the names of each.
func sorted(files []*Target) []*Target {
	for _, f := range files {
		slices.Sort(f.Names)
	}
	slices.SortFunc(files, func(a, b *Target) int { return strings.Compare(a.Names[0], b.Names[0]) })
	return files
}

// SortedKeys returns the keys of m in order, so that output is reproducible.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
