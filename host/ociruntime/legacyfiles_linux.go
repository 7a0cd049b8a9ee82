// The files of the root that need patches: from the layers of an overlay, or from the root itself, without those
// that mounts of the engine cover.

package ociruntime

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
)

// cover finds the paths that the engine's mounts hide.
func (k *container) cover() error {
	for _, m := range k.spec.Mounts {
		if k.isOwn(m) {
			continue // from an earlier start: it is removed
		}
		real, err := k.root.Resolve(m.Destination)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.Destination, err)
		}
		k.hidden = append(k.hidden, real)
		if _, inside := k.stripped(m.Destination); inside || real == "" || "/"+real != path.Clean("/"+m.Destination) {
			k.elsewhere = m.Destination
		}
	}
	return nil
}

// stripped returns the rest of a destination that begins with the root's path on this machine. Today's runc mounts
// there (internal/pathrs, LexicallyStripRoot), runc 1.1 proc and sysfs alone, and crun nothing.
func (k *container) stripped(destination string) (string, bool) {
	return strings.CutPrefix(path.Clean("/"+destination)+"/", strings.TrimSuffix(k.root.Path, "/")+"/")
}

func (k *container) isHidden(name string) bool { return isBelow(name, k.hidden) }

// isCovered reports whether the file at a real path is in another mount than the root: where names fold, the mount may
// have another spelling.
func (k *container) isCovered(name string) bool {
	fd, err := k.root.Name("")
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	own, err := rootfs.MountOf(fd)
	return err == nil && !k.isIn([]byte(name), own)
}

func isBelow(name string, places []string) bool {
	return slices.ContainsFunc(places, func(at string) bool {
		return name == at || at == "" || strings.HasPrefix(name, at+"/")
	})
}

// look finds the files to patch: those of the root, and of the mounts in it that exist already.
func (k *container) look() (*scanned, error) {
	keep := indexes{k.store, k.maker(), k.budget, k.pool, k.machine}
	found, err := k.lookAtRoot(keep)
	if err != nil {
		return nil, err
	}
	if !found.certain {
		if why := k.uncertainRoot(); why != "" {
			found.Unread = append(found.Unread, unread{Reason: why})
		}
	}
	if err := k.noteInterpreters(keep); err != nil {
		k.rec.Add("", "binfmt_misc: "+err.Error())
	}
	// A volume may have more files than any image. It does not get all of the remaining time, and its errors do
	// not keep the files of the root from being patched.
	const share = 0.8
	keep.spend = newBudget(k.Limits)
	keep.spend.Seconds = share * max(k.budget.Seconds-k.budget.since(), 0)
	until := k.pool.Until
	k.pool.Until = keep.spend.until()
	defer func() { k.pool.Until = until }()
	for n := 0; n < len(k.mounts); n++ {
		m := k.mounts[n]
		if m.isBelow(k.root.Path) {
			name := strings.TrimPrefix(m.Mountpoint[len(strings.TrimSuffix(k.root.Path, "/")):], "/")
			if err := k.lookAtMount(keep, m, name, found); err != nil {
				found.Unread = append(found.Unread, unread{Name: []byte(name), Reason: "mount: " + err.Error(), mount: m.ID})
			}
		}
		if n == len(k.mounts)-1 {
			if err := k.newMounts(found.Unread); err != nil {
				return nil, err
			}
		}
	}
	found.Unread = slices.DeleteFunc(found.Unread, func(u unread) bool {
		if u.crosses {
			return slices.Contains(k.hidden, string(u.Name)) // the other mount was looked at
		}
		return u.mount != 0 && !k.isIn(u.Name, u.mount) // other mounts may cover a part of a mount
	})
	for i := range found.Legacy {
		h := &found.Legacy[i]
		h.Names = slices.DeleteFunc(h.Names, func(name []byte) bool { return h.mount != 0 && !k.isIn(name, h.mount) })
	}
	return found, nil
}

// newMounts adds the mounts that were made since the mounts were read: a look at a directory triggers automounts.
func (k *container) newMounts(seen []unread) error {
	if k.inside == nil {
		return nil
	}
	for _, u := range seen {
		if u.crosses && !slices.Contains(k.hidden, string(u.Name)) {
			if fd, err := k.root.OpenDir(string(u.Name)); err == nil {
				unix.Close(fd)
			}
		}
	}
	now, err := k.inside.mounts()
	type place struct {
		id int // an ID may be reused after its mount has ended
		at string
	}
	known := map[place]bool{} // there may be 100,000
	for _, m := range k.mounts {
		known[place{m.ID, m.Mountpoint}] = true
	}
	for _, m := range now {
		if !known[place{m.ID, m.Mountpoint}] {
			k.mounts = append(k.mounts, m)
		}
	}
	return err
}

// isIn reports whether a real path of the root is in a mount, or may be.
func (k *container) isIn(name []byte, mount int) bool {
	fd, err := k.root.Name(string(name))
	if err != nil {
		return !gone(err)
	}
	defer unix.Close(fd)
	id, err := rootfs.MountOf(fd)
	return err != nil || id == mount
}

// gone reports whether an error means that a real path does not exist.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// kernelOnly are file systems whose files come from the kernel.
var kernelOnly = []string{
	"proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "securityfs", "debugfs", "tracefs", "configfs", "bpf", "pstore",
	"efivarfs", "binfmt_misc", "selinuxfs", "smackfs", "rpc_pipefs", "nfsd", "nsfs", "fusectl", "resctrl",
}

// lookAtMount adds the results for a mount, unless another mount covers it.
func (k *container) lookAtMount(keep indexes, m mount, name string, all *scanned) error {
	fd, err := k.root.Name(name)
	if gone(err) {
		return nil // another file is at its path
	}
	if err != nil {
		return err
	}
	root, err := rootfs.Of(fd, "/"+name) // or a file
	if err != nil {
		return err
	}
	defer root.Close()
	id, err := rootfs.MountOf(fd)
	if err != nil || id != m.ID {
		return err
	}
	k.hidden = append(k.hidden, name)
	if slices.Contains(kernelOnly, m.FSType) {
		return nil
	}
	if why := k.uncertain(fd, k.mounts); why != "" {
		all.Unread = append(all.Unread, unread{Name: []byte(name), Reason: why, mount: m.ID})
	}
	if m.FSType == "autofs" {
		below, err := k.root.OpenDir(name) // this triggers automounts: newMounts
		if err != nil {
			return err
		}
		defer unix.Close(below)
		if id, err := rootfs.MountOf(below); err != nil || id != m.ID {
			return err
		}
		return errors.New("an automounter: what it mounts later is not examined")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	found := &scanned{}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		root.Bare, root.Direct = bare(k.mounts, m.Mountpoint), true
		found, err = keep.dir(root)
		name += "/"
	case unix.S_IFREG:
		found, err = keep.file(k.root, fd)
	}
	if err != nil {
		return err
	}
	for _, h := range found.Legacy {
		h.mount, h.Names = m.ID, slices.Clone(h.Names)
		for i, below := range h.Names {
			h.Names[i] = []byte(name + string(below))
		}
		all.Legacy = append(all.Legacy, h)
	}
	for _, u := range found.Unread {
		u.Name, u.mount = []byte(name+string(u.Name)), m.ID
		all.Unread = append(all.Unread, u)
	}
	return nil
}

// lookAtRoot finds the files of the root in the way that reads least.
func (k *container) lookAtRoot(keep indexes) (*scanned, error) {
	m, mounted := k.rootMount()
	k.writable = !k.spec.Root.Readonly && k.ownRoot(m, mounted)
	var layered *scanned
	var err error
	if mounted && m.wholeOverlay() {
		var whole bool
		if layered, whole, err = k.lookAtLayers(keep, m); err == nil && whole {
			return layered, nil
		}
	}
	if k.immutableRoot() && layered == nil {
		return keep.lower(k.root.Path, true)
	}
	k.root.Bare = bare(k.mounts, k.root.Path)
	found, err := keep.dir(k.root)
	if err == nil && layered != nil {
		for _, h := range layered.Legacy { // a file that is not shown may be a truncated copy: fix
			h.Names = slices.DeleteFunc(slices.Clone(h.Names), func(n []byte) bool {
				shown, _ := k.shows(string(n), h.ID) // an error occurs again when the file is patched
				return shown
			})
			if len(h.Names) > 0 {
				found.Legacy = append(found.Legacy, h)
			}
		}
	}
	return found, err
}

// immutableRoot reports whether the root cannot change: the container cannot change it, even by another mount, and
// according to the operator, nobody else does.
func (k *container) immutableRoot() bool {
	return k.spec.Root.Readonly && !slices.Contains(k.spec.Process.Capabilities.Bounding, "CAP_SYS_ADMIN") && k.ImmutableRoots != "" && isBelow(k.root.Path, strings.Split(k.ImmutableRoots, ","))
}

// rootMount returns the mount at the root; false if it is not a mount.
func (k *container) rootMount() (mount, bool) {
	fd, err := k.root.Name("")
	if err != nil {
		return mount{}, false
	}
	defer unix.Close(fd)
	return mountAt(k.mounts, k.root.Path, fd)
}

// lookAtLayers finds the files in the layers of an overlay, most of which never change. whole reports that the
// layers have all files of the root at the same paths.
func (k *container) lookAtLayers(keep indexes, m mount) (all *scanned, whole bool, err error) {
	layers, err := layersOf(m)
	if err != nil {
		return nil, false, err
	}
	var upper *rootfs.Root
	var made unix.StatxTimestamp // creation time of the upper layer
	if layers.upper != "" {
		if upper, err = keep.open(layers.upper); err != nil {
			return nil, false, err
		}
		defer upper.Close()
		if made, err = k.upperLayer(upper); err != nil {
			return nil, false, err
		}
		k.upper = layers.upper
	}
	all, whole = &scanned{certain: upper == nil || upper.Has(rootfs.Certain)}, true
	for _, dir := range layers.lower {
		f, err := keep.lower(dir, immutable(dir))
		if err != nil {
			return nil, false, err
		}
		all.certain = all.certain && f.certain
		whole = whole && !f.Moved && (k.witnessed(f) || len(f.Witnesses) == 0 && upper != nil && k.older(dir, upper.Path, made))
		for _, h := range f.Legacy {
			h.layer = dir
			all.Legacy = append(all.Legacy, h)
		}
		all.Unread = append(all.Unread, f.Unread...)
	}
	k.rec.Layers = layers.lower
	if upper != nil {
		f, err := keep.dir(upper)
		if err != nil {
			return nil, false, err
		}
		whole = whole && !f.Moved
		for _, h := range f.Legacy {
			if h.ID, err = k.inRoot(h.ID, h.Names...); err != nil {
				return nil, false, err
			}
			all.Legacy = append(all.Legacy, h)
		}
		for _, u := range f.Unread {
			if u.ID, err = k.inRoot(u.ID, u.Name); err != nil {
				return nil, false, err
			}
			all.Unread = append(all.Unread, u)
		}
		all.temps = f.temps
	}
	all.Unread = slices.DeleteFunc(all.Unread, func(u unread) bool {
		shown, err := k.shows(string(u.Name), u.ID)
		return u.ID != (rootfs.Identity{}) && !shown && err == nil
	})
	return all, whole, nil
}

// inRoot returns the identity that the root shows for a file of its upper layer: a file that was copied up for
// another mode or owner has the inode number of the lower layer (fs/overlayfs/inode.c, ovl_getattr).
func (k *container) inRoot(id rootfs.Identity, names ...[]byte) (rootfs.Identity, error) {
	for _, name := range names {
		st, err := k.root.Lstat(string(name))
		if err != nil && !gone(err) {
			return id, err
		}
		if shown := rootfs.IdentityOf(&st); err == nil && shown.Size == id.Size && shown.Mtime == id.Mtime && shown.Ctime == id.Ctime {
			return shown, nil
		}
	}
	return id, nil
}

// upperLayer returns the creation time of the root's upper layer. An overlay's root has the times of that
// directory (fs/overlayfs/inode.c, ovl_getattr): it returns an error if dir has other times.
func (k *container) upperLayer(dir *rootfs.Root) (made unix.StatxTimestamp, err error) {
	a, aerr := k.root.Stat()
	b, berr := dir.Stat()
	if aerr == nil && berr == nil && (a.Btime != b.Btime || a.Ctime != b.Ctime || a.Mtime != b.Mtime) {
		return made, errLayers
	}
	return b.Btime, errors.Join(aerr, berr)
}

// witnessed reports whether the root shows a file of a layer, so that the layer was at its path when the root was
// mounted.
func (k *container) witnessed(layer *scanned) bool {
	return slices.ContainsFunc(layer.Witnesses, func(w witness) bool {
		shown, _ := k.shows(string(w.Name), w.ID)
		return shown
	})
}

// older reports whether a directory without files has been at its path since before the upper layer was created:
// this includes the symlink at its path and the directories above it, except those of the upper layer; no mount
// may cover one of them.
func (k *container) older(dir, upper string, made unix.StatxTimestamp) bool {
	real, err := filepath.EvalSymlinks(dir)
	paths := []string{dir}
	for at := real; !strings.HasPrefix(upper, strings.TrimSuffix(at, "/")+"/"); at = filepath.Dir(at) {
		paths = append(paths, at)
	}
	return err == nil && !slices.ContainsFunc(paths, func(at string) bool {
		var st unix.Stat_t
		err := unix.Lstat(at, &st)
		late := st.Ctim.Sec > made.Sec || st.Ctim.Sec == made.Sec && st.Ctim.Nsec >= int64(made.Nsec)
		return err != nil || late || slices.ContainsFunc(k.machine, func(m mount) bool { return m.Mountpoint == at })
	})
}

// lower returns the result for a lower layer; immutable reports that nobody changes it.
func (k *indexes) lower(dir string, immutable bool) (*scanned, error) {
	root, err := k.open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	look := k.dir
	if immutable {
		look = k.layer
	}
	x, err := look(root)
	if err == nil {
		x.certain = root.Has(rootfs.Certain)
	}
	return x, err
}

// open opens a directory of an overlay, without the mounts in it, as an overlay does not show them.
func (k *indexes) open(dir string) (*rootfs.Root, error) {
	root, err := rootfs.Open(dir)
	if err != nil {
		return nil, err
	}
	if root.Bare = bare(k.machine, root.Path); root.Bare {
		return root, nil
	}
	defer root.Close()
	return root.Alone()
}

// ownRoot reports whether an engine made the root for this container alone.
func (k *container) ownRoot(m mount, mounted bool) bool {
	switch {
	case mounted && m.readOnly(), k.root.Path == "/": // the machine's own, an overlay on live systems
		return false
	case mounted && m.wholeOverlay():
		return strings.Contains(","+m.VFSOptions, ",upperdir=")
	case mounted && snapshotRoot(m):
		return true
	}
	return engineRoot(k.root.Path)
}

// shows reports whether the root shows, at a real path, the file that one of its layers has there: an upper layer
// may have replaced or removed it. It returns an error if the path cannot be examined.
func (k *container) shows(name string, id rootfs.Identity) (bool, error) {
	st, err := k.root.Lstat(name)
	if err != nil && gone(err) {
		return false, nil
	}
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && rootfs.IdentityOf(&st).SameFile(id), err
}
