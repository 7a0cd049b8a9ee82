// Files in the container's own root. A patched file is written beside its original and renamed over it: a start
// that is killed leaves the original or the patched file, and at most one temporary name, which the next start
// removes (sweep). A mark identifies copies that a power failure truncated.

package ociruntime

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/internal/sparse"
)

const (
	tempPrefix = ".vfix-"
	tempSuffix = ".tmp"
	tempRandom = 8 // bytes, written as hex
)

// replace replaces the original by the copy under all its names, which stay names of one file.
func (k *container) replace(names []string, c *copied, old rootfs.Identity) error {
	src, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer src.Close()
	at, err := k.root.OpenDir(parent(names[0]))
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
	defer unix.Unlinkat(at, temp, 0) // fails if the rename has succeeded
	n, err := sparse.Copy(f, src)
	if err == nil && n != c.size {
		err = fmt.Errorf("got %d bytes of the copy, want %d", n, c.size)
	}
	if err == nil {
		err = c.meta.Give(fd)
	}
	if err == nil {
		err = k.write(f, filepath.Join(parent(names[0]), temp), c)
	}
	for _, name := range names[1:] {
		if err == nil {
			err = k.link(at, temp, name, old)
		}
	}
	if err == nil {
		err = k.swap(at, temp, names[0], old)
	}
	return err
}

// write makes the content of a new file durable before its name. In a directory this means to wait for the disk.
// In an overlay the file gets a mark instead, and it is enough to start the write: see markXattr.
func (k *container) write(f *os.File, name string, c *copied) error {
	if k.upper == "" || !setMark(int(f.Fd()), c) {
		return f.Sync()
	}
	// The overlay's own file has no pages; the file in the upper layer has them.
	u, err := k.inUpper(name)
	if err == nil {
		defer u.Close()
		err = unix.SyncFileRange(u.FD(), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
	if err != nil {
		return f.Sync()
	}
	return nil
}

// inUpper opens a file of the upper layer.
func (k *container) inUpper(name string) (*rootfs.File, error) {
	upper, err := rootfs.Open(k.upper)
	if err != nil {
		return nil, err
	}
	defer upper.Close()
	return upper.OpenFile(name)
}

// fix recreates a copy that an earlier start has put into the upper layer over a file of a lower one, and that a
// power failure has truncated. Any other file at that path is the container's own.
func (k *container) fix(name string, h *legacyFile) error {
	if !k.writable || k.upper == "" || h.layer == "" {
		return nil
	}
	is, err := k.inUpper(name)
	if err != nil {
		return nil // no file is there
	}
	defer is.Close()
	if !markedBefore(is.FD(), h.SHA256) || is.Stat.Mtim.Nano() != h.ID.Mtime {
		return nil
	}
	layer, err := rootfs.Open(h.layer)
	if err != nil {
		return err
	}
	defer layer.Close()
	c, err := k.copyOf(layer, name, h)
	if err != nil {
		return err
	}
	f, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if part, err := partOf(is, f, c.size); err != nil || !part {
		return err
	}
	st, err := k.root.Lstat(name)
	if err != nil {
		return err
	}
	return k.replace([]string{name}, c, rootfs.IdentityOf(&st))
}

// link links the file to another name of the original.
func (k *container) link(from int, temp, name string, old rootfs.Identity) error {
	at, err := k.root.OpenDir(parent(name))
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

// swap renames the temporary file in the directory at to the last part of name, if the original is still there.
func (k *container) swap(at int, temp, name string, old rootfs.Identity) error {
	var st unix.Stat_t
	if err := unix.Fstatat(at, path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	// The ctime is not compared: it changed when another name of the same file was replaced.
	if is := rootfs.IdentityOf(&st); is.Size != old.Size || is.Mtime != old.Mtime || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return rootfs.ErrChanged
	}
	return unix.Renameat(at, temp, at, path.Base(name))
}

// sweep removes the temporary files of an earlier start.
func (k *container) sweep(temps []string) {
	for _, name := range temps {
		if at, err := k.root.OpenDir(parent(name)); err == nil {
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

// isTemp reports whether tempName makes such names.
func isTemp(name []byte) bool {
	if !bytes.HasPrefix(name, []byte(tempPrefix)) || !bytes.HasSuffix(name, []byte(tempSuffix)) {
		return false
	}
	b, err := hex.DecodeString(string(name[len(tempPrefix) : len(name)-len(tempSuffix)]))
	return err == nil && len(b) == tempRandom
}

// The mark of a file that vfix wrote into the upper layer of an overlay: an extended attribute with the boot that
// it was written in and the original's SHA-256. A start does not wait until such a file is on the disk: the
// original remains in a lower layer, and a copy that a power failure truncated is made again. Such a copy is
// recognized by its mark, and by its content, which is a part of the copy; times and sizes prove nothing, as an
// image may have any.
//
// A process in a container needs CAP_SYS_ADMIN on the machine to set the mark, and an image's own files are in
// lower layers, in which the mark means nothing.
const markXattr = "trusted.vfix.copy"

// setMark marks a file that is being written; it returns false if it cannot.
func setMark(fd int, c *copied) bool {
	return store.BootID() != "" && unix.Fsetxattr(fd, markXattr, []byte(store.BootID()+" "+hex.EncodeToString(c.original)), 0) == nil
}

// markedBefore reports whether a file has the mark of a copy of this original from an earlier boot: only such a
// copy may have been truncated by a power failure.
func markedBefore(fd int, original []byte) bool {
	b := make([]byte, 256) // bytes; the mark has 101
	n, err := unix.Fgetxattr(fd, markXattr, b)
	if err != nil {
		return false
	}
	boot, sum, _ := strings.Cut(string(b[:n]), " ")
	return store.BootID() != "" && boot != store.BootID() && sum == hex.EncodeToString(original)
}

// partOf reports whether a file is a truncated copy: shorter, or with zeros in place of unwritten blocks, and
// otherwise equal. The whole copy is not one.
func partOf(f *rootfs.File, copied io.ReaderAt, size int64) (bool, error) {
	if f.Stat.Size > size {
		return false, nil
	}
	const block = 512 // bytes; the least that a disk writes at once
	got, want, zeros := make([]byte, block), make([]byte, block), make([]byte, block)
	whole := f.Stat.Size == size
	for at := int64(0); at < f.Stat.Size; at += block {
		n := min(block, f.Stat.Size-at)
		if _, err := f.ReadAt(got[:n], at); err != nil {
			return false, err
		}
		if _, err := copied.ReadAt(want[:n], at); err != nil {
			return false, err
		}
		if !bytes.Equal(got[:n], want[:n]) {
			if !bytes.Equal(got[:n], zeros[:n]) {
				return false, nil
			}
			whole = false
		}
	}
	return !whole, nil
}
