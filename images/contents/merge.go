// Applies layers as overlay engines do: each layer is unpacked into its own directory, in which whiteouts are files
// that hide, and the directories are stacked (containerd, archive.OverlayConvertWhiteout; docker,
// archive.overlayWhiteoutConverter). Symlinks of the layers below are not visible while a layer is unpacked.

package contents

import (
	"archive/tar"
	"fmt"
	"maps"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/hinterr"
)

// applying is one layer that is being applied.
type applying struct {
	to    *Tree // the layer's own tree
	n     int   // the layer's number
	below *Tree // the layers below
	pool  map[string]*Inode
}

// stack puts a layer of an image on the tree, or a tarball, which is no layer, on an empty one.
func (t *Tree) stack(idx *layerIndex, l v1.Layer) error {
	a := &applying{to: NewTree(), n: len(t.Layers), below: t, pool: map[string]*Inode{}}
	t.Layers, t.image = append(t.Layers, idx), append(t.image, l)
	for _, e := range idx.Entries {
		if err := a.add(e); err != nil {
			return fmt.Errorf("%s: %s: %w", idx.Title, e.Name, err)
		}
	}
	t.cover(a.to)
	return nil
}

// cover puts the tree of a layer over the layers below.
func (t *Tree) cover(up *Tree) {
	hidden := map[string]bool{} // the directories below whose contents the layer hides
	for name, k := range up.nodes {
		old := t.nodes[name]
		hides := k.opaque || !k.IsDir()
		if name != "" && hides && old != nil && old.IsDir() {
			hidden[name] = true
		}
	}
	t.removeBelow(hidden)
	for name, k := range up.nodes {
		old := t.nodes[name]
		switch {
		case k.Typeflag == typeWhiteout:
			delete(t.nodes, name)
		case k.IsDir() && old != nil && old.IsDir() && !hidden[name]:
			if old.Implied = k.Implied; !k.Implied {
				old.Inode = k.Inode
			}
		default:
			k.opaque = false
			t.nodes[name] = k
		}
	}
}

func (a *applying) add(e *Entry) error {
	if strings.HasPrefix(e.Name, whiteoutPool) {
		a.pool[e.Name] = &Inode{e, a.n}
		return nil
	}
	if e.Typeflag == typeOpaque {
		return a.hideBelow(e.Name)
	}
	name, err := a.to.place(e.Name)
	if err == nil && name != "" {
		err = a.to.makeDirs(parent(name), a.n)
	}
	if err != nil {
		return err
	}
	k, old := &Node{Inode: &Inode{e, a.n}}, a.to.nodes[name]
	isDir := old != nil && old.IsDir()
	switch e.Typeflag {
	case typeWhiteout:
		// Engines refuse one after an entry that it must not hide; containerd unpacks the lowest layer in place.
		if old != nil && a.n > 0 {
			old.opaque = isDir
			return nil
		}
	case tar.TypeLink:
		if k.Inode, err = a.target(e); err != nil {
			return err
		}
		k.relink(e)
	case tar.TypeDir:
		k.opaque = isDir && old.opaque
	case tar.TypeChar:
		// Such a device is a whiteout of overlay (Linux, Documentation/filesystems/overlayfs.rst).
		if e.Devmajor == 0 && e.Devminor == 0 {
			k.Inode = &Inode{&Entry{Header: tar.Header{Typeflag: typeWhiteout}}, a.n}
		}
	}
	if isDir && !k.IsDir() {
		a.to.removeBelow(map[string]bool{name: true})
	}
	a.to.nodes[name] = k
	return nil
}

// hideBelow makes a directory opaque; engines create it. For a file it has no effect: docker accepts it, containerd
// refuses it.
func (a *applying) hideBelow(dir string) error {
	if k := a.to.Find(dir); k != nil && k.HasContent() {
		return nil
	}
	real, err := a.to.Resolve(dir)
	if err == nil {
		err = a.to.makeDirs(real, a.n)
	}
	if err == nil {
		a.to.nodes[real].opaque = true
	}
	return err
}

// relink sets the metadata of one more hard link's header on an inode: docker and containerd apply each header to
// the file itself (containerd, archive.createTarFile). The kernel removes the capabilities whenever the owner is
// set, so only a header with capabilities keeps them.
func (i *Inode) relink(link *Entry) {
	e := *i.Entry
	e.Uid, e.Gid, e.Uname, e.Gname, e.ModTime = link.Uid, link.Gid, link.Uname, link.Gname, link.ModTime
	if e.Typeflag != tar.TypeSymlink {
		e.Mode = link.Mode
	}
	e.PAXRecords = map[string]string{}
	maps.Copy(e.PAXRecords, i.PAXRecords)
	delete(e.PAXRecords, capability)
	maps.Copy(e.PAXRecords, link.PAXRecords)
	i.Entry = &e
}

// target returns the file that a hard link refers to: in the layer itself, else in the layers below.
func (a *applying) target(e *Entry) (*Inode, error) {
	if pooled := a.pool[e.Linkname]; pooled != nil {
		return pooled, nil
	}
	for _, t := range []*Tree{a.to, a.below} {
		name, err := t.place(e.Linkname)
		if err != nil {
			return nil, err
		}
		switch k := t.nodes[name]; {
		case k == nil:
			continue
		case k.IsDir():
			return nil, hinterr.Damaged("hard link to %s, which is a directory", e.Linkname)
		case k.Typeflag != typeWhiteout:
			return k.Inode, nil
		}
		break
	}
	return nil, hinterr.Damaged("hard link to %s, which does not exist", e.Linkname)
}
