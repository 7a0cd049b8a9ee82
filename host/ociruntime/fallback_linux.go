// The fallback: libvfix.so in a file system in memory at /vfix, and an /etc/ld.so.preload that names it. Package
// images writes the same files into derived images, and explains their form.

package ociruntime

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/internal/fallbackfiles"
)

// maxPreload is the maximum size of an image's own ld.so.preload, in bytes.
const maxPreload = 64 << 10

// addFallback mounts the preload library.
func (k *container) addFallback() error {
	wide := false
	for _, name := range fallbackfiles.Loaders32 {
		if real, err := k.root.Resolve(name); err == nil {
			_, err = k.root.Lstat(real)
			wide = wide || !errors.Is(err, unix.ENOENT)
		}
	}
	content, meta, name, err := k.preload()
	if err != nil {
		return err
	}
	named := fallbackfiles.WithLine(content, wide)
	if k.has(fallbackfiles.Dir+"/"+fallbackfiles.Library, k.own.Library()) && bytes.Equal(content, named) {
		return nil // vfix-runtime has added it; this is a hook of another program
	}
	if k.isHidden(name) || k.isHidden(fallbackfiles.Dir) {
		return fmt.Errorf("the engine mounts something at /%s or /%s", name, fallbackfiles.Dir)
	}
	if err := k.itself(fallbackfiles.Dir); err != nil {
		return err
	}
	key, err := k.storedFile("ld.so.preload", named, meta)
	if err != nil {
		return err
	}
	for _, at := range []string{fallbackfiles.Dir, name} {
		if err := k.mountable(at); err != nil {
			return fmt.Errorf("/%s: %w", at, err)
		}
	}
	files, err := k.fallbackFiles(wide)
	if err != nil {
		return err
	}
	k.add = append(append(k.add, files...), bound("/"+name, key))
	return nil
}

// itself returns nil if a name that programs have built in, and its directories, are not symlinks: otherwise a
// mount would be at another path.
func (k *container) itself(name string) error {
	real, err := k.root.Resolve(name)
	if err == nil && real != name {
		err = fmt.Errorf("a symlink leads to /%s", real)
	}
	if err != nil {
		return fmt.Errorf("/%s: %w", name, err)
	}
	return nil
}

func (k *container) has(name string, body []byte) bool {
	f, err := k.root.OpenFile(name)
	if err != nil {
		return false
	}
	defer f.Close()
	got := make([]byte, len(body)+1)
	n, err := f.ReadAt(got, 0)
	return err == io.EOF && bytes.Equal(got[:n], body)
}

// bound is a read-only mount of a file of the store.
func bound(at, key string) addition {
	return addition{specMount: specMount{Destination: at, Type: "bind", Options: []string{"bind", "ro", "nodev", "nosuid", "rprivate"}}, key: key}
}

// preload reads the image's own ld.so.preload; if it has none, meta is root's.
func (k *container) preload() (content []byte, meta store.Meta, name string, err error) {
	if name, err = k.root.Resolve(fallbackfiles.Preload); err != nil {
		return nil, meta, "", err
	}
	f, err := k.root.OpenFile(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		const readable = 0o644
		meta.Mode = readable
		meta.UID, meta.GID = k.spec.containerRoot()
		return nil, meta, name, nil
	}
	if err != nil {
		return nil, meta, name, fmt.Errorf("/%s: %w", name, err)
	}
	defer f.Close()
	if f.Stat.Size > maxPreload {
		return nil, meta, name, fmt.Errorf("/%s: %d bytes, more than %d", name, f.Stat.Size, maxPreload)
	}
	if content, err = io.ReadAll(io.NewSectionReader(f, 0, f.Stat.Size)); err != nil {
		return nil, meta, name, err
	}
	meta, err = store.ReadMeta(f.FD())
	return content, meta, name, err
}

func (k *container) storedFile(name string, content []byte, meta store.Meta) (string, error) {
	k.relabel(&meta)
	key := meta.Key(sha256.Sum256(content), name, k.spec.idMap)
	_, err := k.store.Put(key, int64(len(content)), func(w *os.File) error {
		if _, err := w.Write(content); err != nil {
			return err
		}
		return meta.Give(int(w.Fd()))
	})
	return key, err
}

// fallbackFiles returns the mounts at /vfix. They are mounts of files, not of a directory: the contents of a
// mounted directory are removed with its start, a mounted file stays. wide adds the library under all values of
// $PLATFORM.
func (k *container) fallbackFiles(wide bool) ([]addition, error) {
	files := []struct {
		name string
		body func() []byte
	}{{fallbackfiles.Library, k.own.Library}, {fallbackfiles.Trace, k.own.Trace}, {fallbackfiles.Library32, k.own.Library32}}
	if !wide {
		files = files[:2]
	}
	all := []addition{{specMount: specMount{
		Destination: "/" + fallbackfiles.Dir, Type: "tmpfs", Source: k.store.Path("tmpfs"),
		Options: []string{"ro", "nosuid", "nodev", "mode=755", "size=64k"},
	}}}
	for _, f := range files {
		key, err := k.ownFile(f.name, f.body())
		if err != nil {
			return nil, err
		}
		all = append(all, bound("/"+fallbackfiles.Dir+"/"+f.name, key))
		dir, base := filepath.Split(f.name)
		for _, platform := range slices.Sorted(maps.Keys(fallbackfiles.PlatformLinks)) {
			if wide && fallbackfiles.PlatformLinks[platform]+"/" == dir {
				all = append(all, bound("/"+fallbackfiles.Dir+"/"+platform+"/"+base, key))
			}
		}
	}
	return all, nil
}

// ownFile returns the key of a program of the fallback.
func (k *container) ownFile(name string, body []byte) (string, error) {
	const program = 0o755
	meta := store.Meta{Mode: program}
	meta.UID, meta.GID = k.spec.containerRoot()
	return k.storedFile(name, body, meta)
}

// mountable returns nil if a mount at a real path is possible: the path exists, or the runtime can create it.
func (k *container) mountable(name string) error {
	if err := k.stays(""); err != nil {
		return err
	}
	if _, err := k.root.Lstat(name); err == nil {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(k.root.Path, &st); err != nil {
		return err
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return errors.New("it does not exist, and the root file system is read-only")
	}
	return k.makeable(name)
}

// makeable returns nil if root of the container's user namespace may create a name. It may only if owner and group
// of the directory are in the namespace (Linux, capable_wrt_inode_uidgid).
func (k *container) makeable(name string) error {
	joined := func(n specNamespace) bool { return n.Type == "user" && n.Path != "" }
	uids, gids := k.spec.Linux.UIDMappings, k.spec.Linux.GIDMappings
	if k.spec.idMap == "" && !slices.ContainsFunc(k.spec.Linux.Namespaces, joined) {
		return nil
	}
	st, err := k.root.Lstat(name)
	for errors.Is(err, unix.ENOENT) && name != "." {
		name = filepath.Dir(name)
		st, err = k.root.Lstat(name)
	}
	if err == nil && !(isMapped(uids, st.Uid) && isMapped(gids, st.Gid)) {
		err = fmt.Errorf("it does not exist, and root of the container's user namespace has no rights in the directory of %d:%d", st.Uid, st.Gid)
	}
	return err
}

func isMapped(all []idMapping, id uint32) bool {
	return slices.ContainsFunc(all, func(m idMapping) bool { return id >= m.HostID && id-m.HostID < m.Size })
}

// relabel sets the SELinux label of a copy in the store. Other containers may not map a label of a single
// container (with categories, "s0:c1,c2"), so a shared copy gets the label that all may use. Other labels do not
// change.
func (k *container) relabel(m *store.Meta) {
	if !store.SELinux() {
		return
	}
	const level = 4 // fields of a context, separated by colons: user, role, type, level
	parts := strings.SplitN(m.Label(), ":", level)
	private := len(parts) == level && strings.Contains(parts[level-1], ":c")
	if k.spec.Linux.MountLabel != "" && (private || m.Label() == "") {
		m.SetLabel(store.SharedLabel)
	}
}
