// Which files of the root are to be patched: from the layers of an overlay, or from the root
// itself, without what the engine mounts over it.

package ociruntime

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
)

// cover finds out what the engine's mounts hide.
func (k *container) cover() error {
	for _, m := range k.spec.Mounts {
		if k.isOwn(m) {
			continue // of an earlier start: it goes
		}
		real, err := k.root.Resolve(m.Destination)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.Destination, err)
		}
		k.hidden = append(k.hidden, real)
	}
	return nil
}

func (k *container) isHidden(name string) bool {
	return slices.ContainsFunc(k.hidden, func(at string) bool {
		return name == at || at == "" || strings.HasPrefix(name, at+"/")
	})
}

// look finds the files to be patched, by whatever way needs the least reading.
func (k *container) look() (*scanned, error) {
	keep := indexes{k.store, k.maker(), k.budget, k.pool}
	m, mounted, err := mountAt(k.root.Path)
	if err != nil {
		return nil, err
	}
	k.writable = !k.spec.Root.Readonly && k.ownRoot(m, mounted)
	var layered *scanned
	if mounted && m.fstype == "overlay" {
		var whole bool
		if layered, whole, err = k.lookAtLayers(keep, m); err == nil && whole {
			return layered, nil
		}
	}
	found, err := keep.folder(k.root)
	if err == nil && layered != nil {
		for _, h := range layered.Legacy { // what is not shown may be a copy that was cut off: repair
			h.Names = slices.DeleteFunc(slices.Clone(h.Names), func(n []byte) bool { return k.shows(string(n), h.ID) })
			if len(h.Names) > 0 {
				found.Legacy = append(found.Legacy, h)
			}
		}
	}
	return found, err
}

// lookAtLayers finds the files in the layers of an overlay, of which most never change. whole says that the root
// shows nothing else: the layers are those that it has, and their paths its own.
func (k *container) lookAtLayers(keep indexes, m mount) (all *scanned, whole bool, err error) {
	layers, err := layersOf(m)
	if err != nil {
		return nil, false, err
	}
	all, whole = &scanned{}, true
	for _, dir := range layers.lower {
		f, err := keep.lower(dir)
		if err != nil {
			return nil, false, err
		}
		whole = whole && !f.Moved && k.witnessed(f)
		for _, h := range f.Legacy {
			h.layer = dir
			all.Legacy = append(all.Legacy, h)
		}
		all.Unread = append(all.Unread, f.Unread...)
	}
	k.rec.Layers = layers.lower
	k.upper = layers.upper
	if layers.upper != "" {
		upper, err := rootfs.Open(layers.upper)
		if err != nil {
			return nil, false, err
		}
		defer upper.Close()
		f, err := keep.folder(upper)
		if err != nil {
			return nil, false, err
		}
		whole = whole && !f.Moved
		all.Legacy = append(all.Legacy, f.Legacy...)
		all.Unread = append(all.Unread, f.Unread...)
		all.temps = f.temps
	}
	all.Unread = slices.DeleteFunc(all.Unread, func(u unread) bool {
		return u.ID != (rootfs.Identity{}) && !k.shows(string(u.Name), u.ID)
	})
	return all, whole, nil
}

// witnessed reports whether the root shows that it has a layer, and not another directory that was at the
// layer's path when the root was mounted. A layer without files shows none.
func (k *container) witnessed(layer *scanned) bool {
	return len(layer.Witnesses) == 0 || slices.ContainsFunc(layer.Witnesses, func(w witness) bool {
		return k.shows(string(w.Name), w.ID)
	})
}

// lower returns what is found in a lower layer.
func (k *indexes) lower(dir string) (*scanned, error) {
	if immutable(dir) {
		return k.layer(dir)
	}
	root, err := rootfs.Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return k.folder(root)
}

// ownRoot reports whether the root is one that an engine made for this container alone.
func (k *container) ownRoot(m mount, mounted bool) bool {
	switch {
	case mounted && m.readOnly, k.root.Path == "/": // the machine's own, an overlay on live systems
		return false
	case mounted && m.fstype == "overlay":
		return hasName(m.options, "upperdir")
	case mounted && snapshotRoot(m):
		return true
	}
	return engineRoot(k.root.Path)
}

func hasName(list, name string) bool {
	for o := range strings.SplitSeq(list, ",") {
		if strings.HasPrefix(o, name+"=") {
			return true
		}
	}
	return false
}

// shows reports whether the root shows, at a real path, the file that was found there in
// one of its layers: an upper layer may have another one, or none.
func (k *container) shows(name string, id rootfs.Identity) bool {
	st, err := k.root.Lstat(name)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && rootfs.IdentityOf(&st).SameFile(id)
}
