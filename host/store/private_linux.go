// No container gets the inode of a copy that another one has: a process with CAP_SYS_ADMIN in a
// user namespace takes the read-only flag off its mount and writes. Each start gets copies of
// its own, in a folder named as its lease, cloned where the file system can (FICLONE), and
// removed when the lease ends: what is mounted by then stays until it is unmounted.
//
// The immutable flag would need the owner of the machine to clear it before he removes the
// cache; fs-verity protects the content and not the mode, and few file systems have it on.

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
	"vfix.dev/vfix/internal/sparse"
)

// Private makes a copy of an entry for this start alone and returns its path. There must be a
// lease.
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

// clone copies a file with all metadata.
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

// writeSum remembers what is in a new entry, which is at path for now and not seen by anybody. It is
// not waited for until it is on the disk: one that is cut off makes the entry none.
func (s *Store) writeSum(key, path string) error {
	sum, err := sumOf(path)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Dir, sumsDir, key), []byte(sum), privateFile)
}

// SHA256 returns the hash of the content of a copy that Get or Put returned, in hex; "" for none.
func (s *Store) SHA256(key string) string {
	b, err := os.ReadFile(filepath.Join(s.Dir, sumsDir, key))
	if err != nil {
		return ""
	}
	sum, _, _ := strings.Cut(string(b), " ")
	return sum
}

// whole reports whether an entry is what was put there.
func (s *Store) whole(key, path string) bool {
	is := identity(path)
	if s.seen(key, is) {
		return true
	}
	want, err := os.ReadFile(filepath.Join(s.Dir, sumsDir, key))
	if err != nil {
		return false
	}
	if got, err := sumOf(path); err != nil || got != string(want) {
		return false
	}
	s.see(key, path, is)
	return true
}

// sumOf is the SHA-256 of a file in hex, and behind it what names its metadata: a copy whose owner or mode was changed
// is no longer what was put there.
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

// The content of a copy is checked when it is first used after the machine was started, and
// whenever its file changed since: to read it all at each start would cost as much as the rest of
// the start does. It remembers which file was found to be whole: its identity with the
// ctime, which every write moves and nobody can set, and the boot, for a power failure takes
// content away and leaves the times. Nobody but the owner of the store has the file: containers get
// copies (Private), so there are no old mappings to write through either.

// seenXattr, of the file that holds the sum of a copy, names the copy that had it. Where the file
// system takes no such attribute the content is read at each start.
const seenXattr = "user.vfix.whole"

// BootID names the time since the machine was started; "" where the kernel does not say.
var BootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// identity names the content of a file in this boot; "" if that is not known.
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

// seen reports whether the copy with a key was found to be whole as the file that it is now.
func (s *Store) seen(key, identity string) bool {
	b := make([]byte, 256) // bytes; an identity has 110 at most
	n, err := unix.Lgetxattr(filepath.Join(s.Dir, sumsDir, key), seenXattr, b)
	return err == nil && identity != "" && string(b[:n]) == identity
}

// see remembers that the copy at path, which had that identity before it was read, is whole.
func (s *Store) see(key, path, before string) {
	if before != "" && identity(path) == before {
		unix.Lsetxattr(filepath.Join(s.Dir, sumsDir, key), seenXattr, []byte(before), 0) // else it is read again
	}
}
