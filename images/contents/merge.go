// Applies layers as overlay engines do: each layer is unpacked into its own directory, in which whiteouts are files
// that hide, and the directories are stacked (containerd, archive.OverlayConvertWhiteout; docker,
// archive.overlayWhiteoutConverter). Symlinks of the layers below are not visible while a layer is unpacked.

package contents

import (
	"archive/tar"
	"fmt"
	"maps"
	"path"

	"vfix.dev/vfix/internal/hinterr"
)

// Merge applies the layers of an image in order.
func Merge(layers []*layerIndex) (*Tree, error) {
	t := NewTree()
	for _, l := range layers {
		if err := t.stack(l); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// applying is one layer that is being applied.
type applying struct {
	to    *Tree // the layer's own tree
	n     int   // the layer's number
	below *Tree // the layers below; nil for a directory or a tarball, which have no whiteouts
	pool  map[string]*Inode
}

// Apply adds the entries of a directory or a tarball, or of a layer without whiteouts, to the tree; from has the
// contents of its files.
func (t *Tree) Apply(idx *layerIndex, from opener) error {
	a := &applying{to: t, n: len(t.Layers)}
	t.Layers, t.from = append(t.Layers, idx), append(t.from, from)
	return a.all(idx)
}

// stack puts a layer on the tree.
func (t *Tree) stack(idx *layerIndex) error {
	a := &applying{to: NewTree(), n: len(t.Layers), below: t, pool: map[string]*Inode{}}
	t.Layers = append(t.Layers, idx)
	if err := a.all(idx); err != nil {
		return err
	}
	t.Root.cover(a.to.Root)
	return nil
}

func (a *applying) all(idx *layerIndex) error {
	for _, e := range idx.Entries {
		if err := a.add(e); err != nil {
			return fmt.Errorf("%s: %s: %w", idx.Title, e.Name, err)
		}
	}
	return nil
}

// cover puts a directory of a layer over the same directory of the layers below.
func (k *Node) cover(up *Node) {
	if k.Implied = up.Implied; !k.Implied {
		k.Inode = up.Inode
	}
	for name, u := range up.Kids {
		old := k.Kids[name]
		switch {
		case u.Typeflag == typeWhiteout:
			delete(k.Kids, name)
		case u.Kids != nil && old != nil && old.Kids != nil && !u.opaque:
			old.cover(u)
		default:
			u.settle()
			k.Kids[name] = u
		}
	}
}

// settle removes all whiteouts from a subtree without layers below it.
func (k *Node) settle() {
	k.opaque = false
	for name, kid := range k.Kids {
		if kid.Typeflag == typeWhiteout {
			delete(k.Kids, name)
			continue
		}
		kid.settle()
	}
}

func (a *applying) add(e *Entry) error {
	if pooled := inPool(e.Name); pooled != "" && a.below != nil {
		a.pool[pooled] = &Inode{e, a.n}
		return nil
	}
	if e.Typeflag == typeOpaque || e.Typeflag == typeWhiteout {
		return a.whiteout(e)
	}
	if e.Name == "" {
		a.to.Root.Inode, a.to.Root.Implied = &Inode{e, a.n}, false
		return nil
	}
	dir, base := path.Split(e.Name)
	d, err := a.to.Dir(dir, a.n, true)
	if err != nil {
		return err
	}
	k := &Node{Inode: &Inode{e, a.n}}
	switch e.Typeflag {
	case tar.TypeLink:
		if k.Inode, err = a.target(e); err != nil {
			return err
		}
		k.relink(e)
	case tar.TypeDir:
		k.Kids = map[string]*Node{}
		if old := d.Kids[base]; old != nil && old.Kids != nil {
			k.Kids, k.opaque = old.Kids, old.opaque
		}
	case tar.TypeChar:
		// Such a device is a whiteout of overlay (Linux, Documentation/filesystems/overlayfs.rst).
		if a.below != nil && e.Devmajor == 0 && e.Devminor == 0 {
			k = newWhiteout(a.n)
		}
	}
	d.Kids[base] = k
	return nil
}

// newWhiteout returns a node that hides the same name of the layers below.
func newWhiteout(layer int) *Node {
	return &Node{Inode: &Inode{&Entry{Header: tar.Header{Typeflag: typeWhiteout}}, layer}}
}

// whiteout applies a whiteout; engines create its directory.
func (a *applying) whiteout(e *Entry) error {
	dir, base := path.Split(e.Name)
	if e.Typeflag == typeOpaque {
		dir = e.Name
		// For a file it has no effect: docker accepts it, containerd refuses it.
		if k := a.to.Find(dir); k != nil && k.HasContent() {
			return nil
		}
	}
	d, err := a.to.Dir(dir, a.n, true)
	if err != nil {
		return err
	}
	k := d.Kids[base]
	switch {
	case e.Typeflag == typeOpaque:
		d.opaque = true
	case a.n == 0: // containerd unpacks the lowest layer in place
		delete(d.Kids, base)
	case k == nil:
		d.Kids[base] = newWhiteout(a.n)
	case k.Kids != nil:
		// Engines refuse a whiteout after an entry that it must not hide.
		k.opaque = true
	}
	return nil
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
	if name := inPool(e.Linkname); name != "" && a.pool[name] != nil {
		return a.pool[name], nil
	}
	dir, base := path.Split(e.Linkname)
	for _, t := range []*Tree{a.to, a.below} {
		if t == nil {
			continue
		}
		d, err := t.Dir(dir, a.n, false)
		if err != nil {
			return nil, err
		}
		if d == nil || d.Kids[base] == nil {
			continue
		}
		k := d.Kids[base]
		if k.Kids != nil {
			return nil, hinterr.Damaged("hard link to %s, which is a directory", e.Linkname)
		}
		if k.Typeflag == typeWhiteout {
			break
		}
		return k.Inode, nil
	}
	return nil, hinterr.Damaged("hard link to %s, which does not exist", e.Linkname)
}
