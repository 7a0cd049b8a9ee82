// No two containers get the same inode of a copy: a process with CAP_SYS_ADMIN in a user namespace can remove the
// read-only flag of its mount and write. Each start gets private copies, in a directory named after its lease,
// cloned if the file system can (FICLONE), and removed when the lease ends: mounted copies then stay until they
// are unmounted.
//
// The immutable flag would force the owner of the machine to clear it before removing the cache; fs-verity
// protects the content but not the mode, and few file systems have it enabled.

package store

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/internal/nodefile"
	"vfix.dev/vfix/internal/sparse"
)

// Private copies an entry for this start alone and returns the path of the copy. It needs a lease.
func (s *Store) Private(key string) (string, error) {
	dir := s.privateOf(s.lease.path)
	if s.lease.copies == 0 {
		if err := os.Mkdir(dir, privateDir); err != nil {
			return "", err
		}
	}
	s.lease.copies++
	path := filepath.Join(dir, strconv.Itoa(s.lease.copies))
	if err := clone(s.Path(key), path); err != nil {
		return "", err
	}
	return path, nil
}

// clone copies a file with all of its metadata.
func clone(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateFile)
	if err != nil {
		return err
	}
	defer dst.Close()
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) != nil {
		if _, err := sparse.Copy(dst, src); err != nil {
			return err
		}
	}
	m, err := ReadMeta(int(src.Fd()))
	if err != nil {
		return err
	}
	return m.Give(int(dst.Fd()))
}

// writeSum stores the hash of a new entry, which is at path for now and not visible to others. It does not wait
// for the disk: a truncated hash invalidates the entry.
func (s *Store) writeSum(key, path string) error {
	sum, err := sumOf(path)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Dir, sumsDir, key), []byte(sum), privateFile)
}

// SHA256 returns the hash of the content of a copy that Get or Put returned, in hex; "" if it is not known.
func (s *Store) SHA256(key string) string {
	b, err := nodefile.Text(filepath.Join(s.Dir, sumsDir, key))
	if err != nil {
		return ""
	}
	sum, _, _ := strings.Cut(string(b), " ")
	return sum
}

// whole reports whether an entry is unchanged.
func (s *Store) whole(key, path string) bool {
	is := identity(path)
	if s.seen(key, is) {
		return true
	}
	want, err := nodefile.Text(filepath.Join(s.Dir, sumsDir, key))
	if err != nil {
		return false
	}
	if got, err := sumOf(path); err != nil || got != string(want) {
		return false
	}
	s.see(key, path, is)
	return true
}

// sumOf returns the SHA-256 of a file, followed by the key of its metadata: a copy with a changed owner or mode is
// not valid.
func sumOf(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err = io.Copy(h, f); err != nil {
		return "", err
	}
	m, err := ReadMeta(int(f.Fd()))
	return fmt.Sprintf("%x %s %d", h.Sum(nil), m.Key([sha256.Size]byte{}, "", ""), m.Mtime.Nano()), err
}

// The content of a copy is checked at its first use after a boot, and after each change of its file: to read it at
// each start would cost as much as the rest of the start. The store records which file was found unchanged: its
// identity with the ctime, which every write changes and nobody can set, and the boot, as a power failure may
// remove content without changing the times. Only the owner of the store has the file: containers get private
// copies, so nobody can write through an old mapping either.

// seenXattr is an attribute of the file with the sum of a copy: the identity of the copy that had this sum. On a
// file system without such attributes, each start reads the content.
const seenXattr = "user.vfix.whole"

// BootID identifies the current boot; "" if the kernel does not report it.
var BootID = sync.OnceValue(func() string {
	b, err := nodefile.Text("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// identity identifies the content of a file in this boot; "" if it cannot.
func identity(path string) string {
	var st unix.Stat_t
	if BootID() == "" || unix.Lstat(path, &st) != nil {
		return ""
	}
	id := rootfs.IdentityOf(&st)
	if id.Unsettled(time.Now()) {
		return ""
	}
	return fmt.Sprint(BootID(), " ", id.Dev, " ", id.Ino, " ", id.Size, " ", id.Mtime, " ", id.Ctime)
}

// seen reports whether the copy with a key was found unchanged and still has that identity.
func (s *Store) seen(key, identity string) bool {
	b := make([]byte, 256) // bytes; an identity has at most 110
	n, err := unix.Lgetxattr(filepath.Join(s.Dir, sumsDir, key), seenXattr, b)
	return err == nil && identity != "" && string(b[:n]) == identity
}

// see records that the copy at path, which had the identity before it was read, is unchanged.
func (s *Store) see(key, path, before string) {
	if identity(path) == before {
		unix.Lsetxattr(filepath.Join(s.Dir, sumsDir, key), seenXattr, []byte(before), 0) // without the attribute it is read again
	}
}
