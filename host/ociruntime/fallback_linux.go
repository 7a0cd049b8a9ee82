package ociruntime

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/store"
)

// The fallback: libvfix.so under /vfix, and an /etc/ld.so.preload that names it, both mounted.
// Package images writes the same files into derived images, and tells why they look so.

const (
	fallbackDir  = "vfix"
	libraryName  = "x86_64/libvfix.so"
	library32    = "i686/libvfix.so"
	preloadName  = "etc/ld.so.preload"
	plainLine    = "/" + fallbackDir + "/" + libraryName
	platformLine = "/" + fallbackDir + "/$PLATFORM/libvfix.so"
	// maxPreload bounds an image's own ld.so.preload, in bytes.
	maxPreload = 64 << 10
)

// platformLinks are values of $PLATFORM beside x86_64 and i686, and the folder meant.
var platformLinks = map[string]string{
	"haswell": "x86_64", "xeon_phi": "x86_64", "i386": "i686", "i486": "i686", "i586": "i686",
}

// loaders32 are where 32-bit glibc's loader is; it reads the same ld.so.preload.
var loaders32 = []string{"lib/ld-linux.so.2", "lib/i386-linux-gnu/ld-linux.so.2"}

// addFallback mounts the preload library.
func (k *container) addFallback() error {
	line := plainLine
	for _, name := range loaders32 {
		real, err := k.root.Resolve(name)
		if err != nil {
			continue
		}
		if _, err := k.root.Lstat(real); err == nil {
			line = platformLine
		}
	}
	content, meta, name, err := k.preload()
	if err != nil {
		return fmt.Errorf("fallback: %w", err)
	}
	if k.isHidden(name) || k.isHidden(fallbackDir) {
		return fmt.Errorf("fallback: the engine mounts something at /%s or /%s", name, fallbackDir)
	}
	if !names(content, line) {
		if len(content) > 0 && content[len(content)-1] != '\n' {
			content = append(content, '\n')
		}
		content = append(content, line+"\n"...)
	}
	dir, err := k.fallbackFolder()
	if err != nil {
		return fmt.Errorf("fallback: %w", err)
	}
	path, err := k.preloadFile(content, meta)
	if err != nil {
		return fmt.Errorf("fallback: %w", err)
	}
	for _, m := range []specMount{{Destination: "/" + fallbackDir, Source: dir}, {Destination: "/" + name, Source: path}} {
		if err := k.mountable(m.Destination[1:]); err != nil {
			return fmt.Errorf("fallback: %s: %w", m.Destination, err)
		}
		m.Type, m.Options = "bind", []string{"bind", "ro", "nodev", "nosuid", "rprivate"}
		k.add = append(k.add, m)
	}
	return nil
}

// preload reads the image's own ld.so.preload; where it has none, meta is root's.
func (k *container) preload() (content []byte, meta store.Meta, name string, err error) {
	if name, err = k.root.Resolve(preloadName); err != nil {
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

// names reports whether a content of ld.so.preload names a library. Names are apart by white
// space or colons; # begins a comment (glibc, elf/rtld.c).
func names(content []byte, line string) bool {
	for l := range bytes.Lines(content) {
		l, _, _ = bytes.Cut(l, []byte("#"))
		for _, w := range strings.FieldsFunc(string(l), func(r rune) bool { return strings.ContainsRune(": \t\n", r) }) {
			if w == line {
				return true
			}
		}
	}
	return false
}

// preloadFile puts the new ld.so.preload into the store.
func (k *container) preloadFile(content []byte, meta store.Meta) (string, error) {
	k.relabel(&meta)
	key := meta.Key(sha256.Sum256(content), "ld.so.preload", k.spec.idMap)
	if path, ok := k.store.Get(key, int64(len(content))); ok {
		return path, nil
	}
	return k.store.Put(key, int64(len(content)), func(w *os.File) error {
		if _, err := w.Write(content); err != nil {
			return err
		}
		return meta.Give(int(w.Fd()))
	})
}

// fallbackFolder puts what is mounted at /vfix into the store.
func (k *container) fallbackFolder() (string, error) {
	files := map[string][]byte{libraryName: k.own.Library, library32: k.own.Library32, "vfix-trace": k.own.Trace}
	h := sha256.New()
	for _, name := range []string{libraryName, library32, "vfix-trace"} {
		fmt.Fprintf(h, "%s %d\n", name, len(files[name]))
		h.Write(files[name])
	}
	var meta store.Meta
	const program = 0o755
	meta.Mode = program
	meta.UID, meta.GID = k.spec.containerRoot()
	k.relabel(&meta)
	key := meta.Key([sha256.Size]byte(h.Sum(nil)), "fallback", k.spec.idMap)
	if path, ok := k.store.Get(key, -1); ok {
		return path, nil
	}
	return k.store.PutFolder(key, func(dir string) error {
		for name, body := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), program); err != nil {
				return err
			}
			if err := os.WriteFile(path, body, program); err != nil {
				return err
			}
		}
		for name, target := range platformLinks {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return giveAll(dir, meta)
	})
}

// giveAll gives the metadata to a folder and to the files and folders in it.
func giveAll(dir string, meta store.Meta) error {
	for _, name := range []string{libraryName, library32, "x86_64", "i686", "vfix-trace", "."} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		now := unix.NsecToTimespec(0)
		meta.Atime, meta.Mtime = now, now
		err = meta.Give(int(f.Fd()))
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// mountable is nil where something can be mounted at a real path: it is there, or the runtime
// can make it.
func (k *container) mountable(name string) error {
	if _, err := k.root.Lstat(name); err == nil {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(k.root.Path, &st); err != nil {
		return err
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return errors.New("not there, and the root file system is read-only")
	}
	return nil
}

// Where SELinux is on, its file system is mounted here.
const selinuxDir = "/sys/fs/selinux/enforce"

// sharedLabel is what containers may read, execute and map, whichever they are:
// container-selinux, container_ro_file_t.
const sharedLabel = "system_u:object_r:container_ro_file_t:s0"

// relabel decides on the SELinux label of a copy in the store. A label of one container
// alone (with categories, "s0:c1,c2") is not for others to map; one copy for all of them
// gets the label that all may use. Every other label stays as it is.
func (k *container) relabel(m *store.Meta) {
	if _, err := os.Stat(selinuxDir); err != nil {
		return
	}
	const level = 4 // fields of a context apart by colons: user, role, type, level
	parts := strings.SplitN(m.Label(), ":", level)
	private := len(parts) == level && strings.Contains(parts[level-1], ":c")
	if k.spec.MountLabel != "" && (private || m.Label() == "") {
		m.SetLabel(sharedLabel)
	}
}
