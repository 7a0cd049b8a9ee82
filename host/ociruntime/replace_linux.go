package ociruntime

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
)

// Files in the container's own root. A patched file is written beside its original and takes
// its name in one step: whoever is killed leaves the original, or the patched file, and at
// most one more name that the next start removes (sweep).

const (
	tempPrefix = ".vfix-"
	tempSuffix = ".tmp"
	tempRandom = 8 // bytes, written as hex
)

// replace has the copy take the place of the original under all its names, which stay names
// of one file.
func (k *container) replace(names []string, c *copied, old rootfs.Identity) error {
	src, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer src.Close()
	at, err := k.root.Folder(parent(names[0]))
	if err != nil {
		return err
	}
	defer unix.Close(at)
	temp := tempName()
	const private = 0o600
	fd, err := unix.Openat(at, temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, private)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	defer f.Close()
	defer unix.Unlinkat(at, temp, 0) // not there any more, where all went well
	if n, err := io.Copy(f, src); err != nil || n != c.size {
		return errors.Join(err, fmt.Errorf("got %d bytes of the copy, want %d", n, c.size))
	}
	if err := c.meta.Give(fd); err != nil {
		return err
	}
	if err := k.write(f, filepath.Join(parent(names[0]), temp)); err != nil {
		return err
	}
	for _, name := range names[1:] {
		if err := k.link(at, temp, name, old); err != nil {
			return err
		}
	}
	return k.swap(at, temp, names[0], old)
}

// write sees to it that the content of a new file is on the disk before its name is. In a
// folder that means to wait for it. In an overlay the original is still there, in a lower
// layer, so it is enough to have the writing begin (file systems that order data before
// metadata then need no more): a file that a power failure cuts off is known by cutOff.
func (k *container) write(f *os.File, name string) error {
	if k.upper == "" {
		return f.Sync()
	}
	// The overlay's own file has no pages; the one in the upper layer has.
	upper, err := rootfs.Open(k.upper)
	if err != nil {
		return f.Sync()
	}
	defer upper.Close()
	u, err := upper.OpenFile(name)
	if err != nil {
		return f.Sync()
	}
	defer u.Close()
	if err := unix.SyncFileRange(u.FD(), 0, 0, unix.SYNC_FILE_RANGE_WRITE); err != nil {
		return f.Sync()
	}
	return nil
}

// cutOff reports whether the root shows, in place of a file of a lower layer, a copy that an
// earlier start has put there and that a power failure has cut off: it has the original's
// time, is smaller than the copy should be, and no whole ELF file.
func (k *container) cutOff(name string, h *legacyFile) bool {
	if !k.writable || h.layer == "" {
		return false
	}
	st, err := k.root.Lstat(name)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mtim.Nano() != h.ID.Mtime || st.Size >= h.Size {
		return false
	}
	f, err := k.root.OpenFile(name)
	if err != nil {
		return false
	}
	defer f.Close()
	_, r, err := planOf(f, f.Stat.Size)
	return err == nil && r.Skipped != ""
}

// repair puts the copy in the place of one that is cut off, made from the file of the lower layer.
func (k *container) repair(name string, h *legacyFile) {
	layer, err := rootfs.Open(h.layer)
	if err != nil {
		k.problem(name, err)
		return
	}
	defer layer.Close()
	c, err := k.copyOf(layer, name, h)
	if err == nil {
		var st unix.Stat_t
		if st, err = k.root.Lstat(name); err == nil {
			err = k.replace([]string{name}, c, rootfs.IdentityOf(&st))
		}
	}
	if err != nil {
		k.problem(name, err)
	}
}

// link gives the file at another name of the original.
func (k *container) link(from int, temp, name string, old rootfs.Identity) error {
	at, err := k.root.Folder(parent(name))
	if err != nil {
		return err
	}
	defer unix.Close(at)
	second := tempName()
	if err := unix.Linkat(from, temp, at, second, 0); err != nil {
		return err
	}
	defer unix.Unlinkat(at, second, 0)
	return k.swap(at, second, name, old)
}

// swap renames the file in the folder at to the last part of name, if what is there is still
// the original.
func (k *container) swap(at int, temp, name string, old rootfs.Identity) error {
	var st unix.Stat_t
	if err := unix.Fstatat(at, path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	// Not the ctime: it changed when another name of the same file was replaced.
	if is := rootfs.IdentityOf(&st); is.Size != old.Size || is.Mtime != old.Mtime || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return rootfs.ErrChanged
	}
	return unix.Renameat(at, temp, at, path.Base(name))
}

// sweep removes what an earlier start left half-done.
func (k *container) sweep(temps []string) {
	for _, name := range temps {
		if at, err := k.root.Folder(parent(name)); err == nil {
			unix.Unlinkat(at, path.Base(name), 0)
			unix.Close(at)
		}
	}
}

func tempName() string {
	b := make([]byte, tempRandom)
	rand.Read(b)
	return tempPrefix + hex.EncodeToString(b) + tempSuffix
}

// isTemp reports whether a name is one of tempName's.
func isTemp(name []byte) bool {
	if !bytes.HasPrefix(name, []byte(tempPrefix)) || !bytes.HasSuffix(name, []byte(tempSuffix)) {
		return false
	}
	b, err := hex.DecodeString(string(name[len(tempPrefix) : len(name)-len(tempSuffix)]))
	return err == nil && len(b) == tempRandom
}
