// The patched copy of a file, and the mount that puts it over its original.

package ociruntime

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/internal/sparse"
)

// patch replaces a file by its patched copy, under all names that the container will see.
func (k *container) patch(h *legacyFile) {
	var names []string
	for _, n := range h.Names {
		name := string(n)
		if h.mount == 0 && (k.isHidden(name) || k.inside != nil && k.isCovered(name)) {
			continue
		}
		shown, err := k.shows(name, h.ID)
		if shown {
			names = append(names, name)
		} else if err == nil {
			err = k.fix(name, h)
		}
		if err != nil {
			k.problem(name, err)
		}
	}
	if len(names) == 0 {
		return
	}
	if h.Left != "" {
		k.rec.SitesLeft += h.Stay
		k.problem(names[0], errors.New(h.Left))
	}
	if h.Size == 0 {
		k.needs(h.Fix)
		return
	}
	if err := k.budget.copied(h.Size); err != nil {
		k.problem(names[0], err)
		return
	}
	copied, err := k.copyOf(k.root, names[0], h)
	if err != nil {
		k.problem(names[0], err)
		return
	}
	if k.writable && h.mount == 0 {
		if err = k.replace(names, copied, h.ID); err == nil {
			k.patched(names, h, copied)
			return
		}
	}
	for _, name := range names {
		if merr := k.mount(name, copied, h.ID); merr != nil {
			k.problem(name, errors.Join(merr, err))
			continue
		}
		k.patched([]string{name}, h, copied)
	}
}

// patched records a patched file, with each of its names.
func (k *container) patched(names []string, h *legacyFile, c *copied) {
	k.needs(h.Fix)
	for _, name := range names {
		k.rec.Files = append(k.rec.Files, starts.File{
			Path: "/" + name, Before: hex.EncodeToString(h.SHA256), After: k.store.SHA256(c.key), Sites: h.Sites, Fix: string(h.Fix),
		})
	}
}

// copied is a patched copy in the store.
type copied struct {
	path     string
	size     int64
	meta     store.Meta // of the original
	original []byte     // the original's SHA-256
	key      string     // in the store
}

// copyOf returns the patched copy of a file, from the store or newly made.
func (k *container) copyOf(root *rootfs.Root, name string, h *legacyFile) (*copied, error) {
	f, err := root.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !f.ID().SameFile(h.ID) {
		return nil, rootfs.ErrChanged
	}
	c := &copied{size: h.Size, original: h.SHA256}
	if c.meta, err = store.ReadMeta(f.FD()); err != nil {
		return nil, err
	}
	meta := c.meta
	k.relabel(&meta)
	c.key = meta.Key([sha256.Size]byte(h.SHA256), k.maker(), k.spec.idMap)
	c.path, err = k.store.Put(c.key, h.Size, func(w *os.File) error {
		original, err := k.snapshot(f, h)
		if err != nil {
			return err
		}
		defer original.Close()
		if err := k.pool.Patch(int(original.Fd()), f.Stat.Size, int(w.Fd()), h.Size); err != nil {
			return err
		}
		return meta.Give(int(w.Fd()))
	})
	return c, err
}

// snapshot copies a file to an unnamed one and verifies the content of that. A process that still has the original
// mapped can write to it without a trace in its times, also between two reads; the copy would be given to every
// container with the supposed original.
func (k *container) snapshot(f *rootfs.File, h *legacyFile) (*os.File, error) {
	s, err := k.store.Scratch()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	_, err = sparse.Copy(s, io.TeeReader(io.NewSectionReader(f, 0, f.Stat.Size), sum))
	if err == nil && string(sum.Sum(nil)) != string(h.SHA256) {
		err = rootfs.ErrChanged
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// maxMounts is the maximum number of names of one root to mount over: a mount namespace can have 100,000 mounts
// (fs.mount-max), and a container beyond that would not start.
const maxMounts = 10000

// addition is a mount that vfix adds.
type addition struct {
	specMount
	key  string           // in the store; "" for a file system in memory
	over *rootfs.Identity // of the file that it covers; nil if any file may be there
}

func (k *container) mount(name string, c *copied, over rootfs.Identity) error {
	if k.pid == 0 && !utf8.ValidString(name) {
		return errors.New("its name is not UTF-8, so config.json cannot name it")
	}
	if len(k.add) >= maxMounts {
		return fmt.Errorf("more than %d names to be mounted over", maxMounts)
	}
	if err := k.stays(name); err != nil {
		return err
	}
	fd, err := k.root.Name(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var at unix.Statfs_t // the copy gets no rights that the original does not have
	if err := unix.Fstatfs(fd, &at); err != nil {
		return err
	}
	options := []string{"bind", "ro", "nodev", "rprivate"}
	if at.Flags&unix.ST_NOEXEC != 0 {
		options = append(options, "noexec")
	}
	const privileged = unix.S_ISUID | unix.S_ISGID
	switch {
	case at.Flags&unix.ST_NOSUID != 0:
		options = append(options, "nosuid")
	case k.pid == 0 && k.flags&unix.ST_NOSUID != 0 && (c.meta.Mode&privileged != 0 || c.meta.Xattrs["security.capability"] != ""):
		return fmt.Errorf("cache: %s is on a file system without setuid (nosuid), and the file needs it", k.store.Dir)
	}
	k.add = append(k.add, addition{specMount{Destination: "/" + name, Type: "bind", Options: options}, c.key, &over})
	return nil
}

func parent(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}
