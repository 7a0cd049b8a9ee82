// Applies layers as engines do. An overlay engine unpacks each layer into its own directory and stacks them; other
// engines unpack each layer over the result of the layers below.

package contents

import (
	"archive/tar"
	"fmt"
	"maps"
	"path"
	"slices"

	"vfix.dev/vfix/internal/hinterr"
)

// manner is how an engine applies a layer.
type manner uint8

const (
	// overlaid: into its own directory, in which whiteouts are files that hide (containerd,
	// archive.OverlayConvertWhiteout; docker, archive.overlayWhiteoutConverter). Symlinks of the layers below are
	// not visible.
	overlaid manner = iota
	// inPlace: into the merged file system, from which a whiteout removes the files that exist at its turn
	// (containerd, archive.applyNaive; docker, archive.UnpackLayer).
	inPlace
	// sparing: like inPlace, but whiteouts spare the files of their own layer, also earlier ones (image-spec
	// layer.md, "Whiteouts"; umoci, TarExtractor.ociWhiteout).
	sparing
	// lowestInPlace: overlaid, except for the lowest layer (containerd, archive.apply in apply_linux.go:
	// the mount of a snapshot without a parent is a bind mount).
	lowestInPlace
)

// others are engines that apply layers differently.
type others struct {
	names string
	manner
}

// otherEngines may show other files than docker's overlay2. podman's vfs driver is docker's.
var otherEngines = []others{
	{"docker's vfs driver and containerd's native snapshotter", inPlace},
	{"umoci", sparing},
	{"containerd's overlayfs snapshotter", lowestInPlace},
}

// Merge applies layers in order. It returns the errors of overlay engines; other engines that would refuse the
// layers have no view. Of equal views, only one tree is in memory at a time.
func Merge(layers []*layerIndex) (*Tree, error) {
	type view struct {
		others
		shows uint64
	}
	var views []view
	for _, o := range otherEngines {
		if o.manner == lowestInPlace && !(len(layers) > 0 && slices.ContainsFunc(layers[0].Entries, func(e *Entry) bool { return e.Kind == KindOpaque })) {
			continue // equal to overlaid
		}
		if w, err := merged(layers, o.manner); err == nil {
			views = append(views, view{o, w.Root.hashShown(0)})
		}
	}
	t, err := merged(layers, overlaid)
	if err != nil {
		return nil, err
	}
	shows, different := t.Root.hashShown(0), map[uint64]*Tree{}
	for _, v := range views {
		switch w := different[v.shows]; {
		case v.shows == shows:
		case w != nil:
			w.Engines += ", " + v.names
		default:
			if w, err = merged(layers, v.manner); err != nil {
				return nil, err
			}
			w.Engines, different[v.shows], t.Others = v.names, w, append(t.Others, w)
		}
	}
	return t, nil
}

func merged(layers []*layerIndex, m manner) (*Tree, error) {
	t := NewTree()
	for n, l := range layers {
		of := m
		if m == lowestInPlace {
			of = overlaid
			if n == 0 {
				of = inPlace
			}
		}
		if err := t.apply(l, of); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// applying is one layer that is being applied.
type applying struct {
	to     *Tree // the tree that it is applied to
	n      int   // the layer's number
	manner manner
	below  *Tree // of overlaid: the files of the layers below
	pool   map[string]*Inode
}

// Apply applies a layer to the tree; from has the contents of its files.
func (t *Tree) Apply(idx *layerIndex, from members) error {
	t.from = append(t.from, from)
	return t.apply(idx, inPlace)
}

func (t *Tree) apply(idx *layerIndex, m manner) error {
	a := &applying{to: t, n: len(t.Layers), manner: m, pool: map[string]*Inode{}}
	t.Layers = append(t.Layers, idx)
	if m == overlaid {
		a.to, a.below = NewTree(), t
	}
	for _, e := range idx.Entries {
		if err := a.add(e); err != nil {
			return fmt.Errorf("%s: %s: %w", idx.Title, e.Name, err)
		}
	}
	if m == overlaid {
		t.Root.cover(a.to.Root)
	}
	return nil
}

// cover puts a directory of a layer over the same directory of the layers below.
func (k *Node) cover(up *Node) {
	if k.Implied = up.Implied; !k.Implied {
		k.Inode, k.Named = up.Inode, up.Named
	}
	for name, u := range up.Kids {
		old := k.Kids[name]
		switch {
		case u.Kind == KindWhiteout:
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
		if kid.Kind == KindWhiteout {
			delete(k.Kids, name)
			continue
		}
		kid.settle()
	}
}

func (a *applying) add(e *Entry) error {
	switch e.Kind {
	case KindPool:
		a.pool[e.Name] = &Inode{e, a.n}
		return nil
	case KindOpaque, KindWhiteout:
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
	k := &Node{Inode: &Inode{e, a.n}, Named: int32(a.n)}
	switch e.Kind {
	case kindHardLink:
		if k.Inode, err = a.target(e); err != nil {
			return err
		}
		k.relink(e)
	case KindDir:
		k.Kids = map[string]*Node{}
		if old := d.Kids[base]; old != nil && old.Kids != nil {
			k.Kids, k.opaque = old.Kids, old.opaque
		}
	case KindOther:
		// Such a device is a whiteout of overlay (Linux, Documentation/filesystems/overlayfs.rst).
		if a.manner == overlaid && e.Flag == tar.TypeChar && e.Meta.device == 0 {
			k = newWhiteout(a.n)
		}
	}
	d.Kids[base] = k
	return nil
}

// newWhiteout returns a node that hides the same name of the layers below.
func newWhiteout(layer int) *Node {
	return &Node{Inode: &Inode{&Entry{Kind: KindWhiteout}, layer}, Named: int32(layer)}
}

// whiteout applies a whiteout. All engines except umoci create its directory, also over a symlink of the layers
// below.
func (a *applying) whiteout(e *Entry) error {
	dir, base := path.Split(e.Name)
	if e.Kind == KindOpaque {
		dir = e.Name
		// For a file it has no effect: docker and umoci accept it, containerd refuses it.
		if k := a.to.Find(dir); k != nil && k.Kids == nil && k.Kind == KindFile {
			return nil
		}
	}
	d, err := a.to.Dir(dir, a.n, a.manner != sparing)
	if d == nil {
		return err
	}
	k := d.Kids[base]
	switch {
	case e.Kind == KindOpaque && a.manner == overlaid:
		d.opaque = true
	case e.Kind == KindOpaque && a.manner == inPlace:
		d.removeUnnamed(a.n)
	case e.Kind == KindOpaque:
		d.hideKids(a.n)
	case a.manner == inPlace:
		delete(d.Kids, base)
	case a.manner == sparing:
		if k != nil && k.hide(a.n) {
			delete(d.Kids, base)
		}
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

// removeUnnamed removes the entries that layer n does not have so far.
func (k *Node) removeUnnamed(n int) {
	for name, kid := range k.Kids {
		if int(kid.Named) != n || kid.Entry == ImplicitDir {
			delete(k.Kids, name)
			continue
		}
		kid.removeUnnamed(n)
	}
}

// hide removes the entries of layers below n from the subtree, and reports whether it is empty then.
func (k *Node) hide(n int) bool {
	k.hideKids(n)
	return int(k.Named) < n && len(k.Kids) == 0
}

func (k *Node) hideKids(n int) {
	for name, kid := range k.Kids {
		if kid.hide(n) {
			delete(k.Kids, name)
		}
	}
}

// relink sets the metadata of one more hard link's header on an inode: docker and containerd apply each header to
// the file itself (containerd, archive.createTarFile). The kernel removes the capabilities whenever the owner is
// set, so only a header with capabilities keeps them. umoci and podman ignore such headers; addFile writes the
// file so that each engine still shows the same.
func (i *Inode) relink(link *Entry) {
	m := link.Meta
	m.device = i.Meta.device
	if i.Kind == KindSymlink {
		m.Mode = i.Meta.Mode
	}
	m.Xattrs, m.linked = maps.Clone(i.Meta.Xattrs), i.Meta.linked
	if m.linked == nil {
		m.linked = &linked{own: m.Xattrs[capability]}
	}
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

// capability is the xattr that each change of the owner removes (Linux, notify_change).
const capability = "security.capability"

// target returns the file that a hard link refers to: in the layer itself, else, for engines that do not use
// overlay, in the layers below.
func (a *applying) target(e *Entry) (*Inode, error) {
	if name := inPool(e.Link); name != "" && a.pool[name] != nil {
		return a.pool[name], nil
	}
	dir, base := path.Split(e.Link)
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
			return nil, hinterr.Damaged("hard link to %s, which is a directory", e.Link)
		}
		if k.Kind == KindWhiteout {
			break
		}
		return k.Inode, nil
	}
	return nil, hinterr.Damaged("hard link to %s, which does not exist", e.Link)
}
