// Opening of a store, look-up of a copy, and the locks between processes.

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/nodefile"
)

const (
	privateDir  = 0o700
	privateFile = 0o600
	othersWrite = 0o022
)

// Open opens the store in a directory, which it creates if it is missing. It refuses a directory that another user
// owns or may write to, as copies from it would run in containers.
func Open(dir string, limit int64) (*Store, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, privateDir); err != nil {
			return nil, err
		}
		real, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	if err := ours(real); err != nil {
		return nil, err
	}
	s := At(real) // a runtime may refuse a source with symlinks, or resolve them differently
	s.Limit = limit
	return s, s.dirs()
}

// dirs creates the missing directories of the store.
func (s *Store) dirs() error {
	for _, name := range []string{"", filesDir, indexDir, locksDir, tempDir, leaseDir, sumsDir, privateCopies, emptyDir} {
		path := filepath.Join(s.Dir, name)
		fi, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			if err = os.Mkdir(path, privateDir); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		} else if err == nil && !fi.IsDir() {
			err = fmt.Errorf("%s: %w", path, ErrUnsound)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Existing opens a store that exists already, to read it.
func Existing(dir string, limit int64) (*Store, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	return Open(dir, limit)
}

func ours(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || !fi.IsDir() || int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&othersWrite != 0 {
		return fmt.Errorf("%s: %w: it must be a directory that its user %d alone can write to", dir, ErrUnsound, os.Geteuid())
	}
	return nil
}

// Flags returns the flags of the store's file system (ST_NOEXEC, ST_NOSUID, … of statvfs(3)).
func (s *Store) Flags() (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(filepath.Join(s.Dir, filesDir), &st)
	return int64(st.Flags), err
}

// Get returns the path of a copy and records its use. ok is false if the copy is missing, has another size in
// bytes, or was changed.
func (s *Store) Get(key string, size int64) (path string, ok bool) {
	path = s.Path(key)
	// Record the use first: from then on nobody removes the copy.
	if s.keep(key) != nil || s.use(path) != nil {
		return path, false
	}
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return path, false
	}
	return path, st.Size == size && s.whole(key, path)
}

// use records that a copy is used. To set a time changes the ctime, and the content is then read again (seen); as
// the lease keeps the copy, the time may be an hour old.
func (s *Store) use(path string) error {
	const often = time.Hour
	if fi, err := os.Lstat(path); s.lease != nil && err == nil && time.Since(accessTime(fi)) < often {
		return nil
	}
	return touch(path)
}

// touch sets the time of the last use.
func touch(path string) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_OMIT}}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, times, unix.AT_SYMLINK_NOFOLLOW)
}

// Patience is the time limit for a lock, whose holder scans a root filesystem or writes a copy.
const Patience = time.Minute

// Lock waits until no other process holds the lock of a key. The returned function releases it and removes its
// file; the end of the process releases it as well.
func (s *Store) Lock(kind, key string) (func(), error) {
	path := filepath.Join(s.Dir, locksDir, kind+"-"+key)
	for {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, privateFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := nodefile.Await(fd, Patience); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		// The previous owner has removed its name.
		if named(fd, path) {
			return func() {
				unix.Unlink(path)
				unix.Close(fd)
			}, nil
		}
		unix.Close(fd)
	}
}

// named reports whether path is still a name of the file at fd, which was opened in the same directory.
func named(fd int, path string) bool {
	var held, there unix.Stat_t
	return unix.Fstat(fd, &held) == nil && unix.Lstat(path, &there) == nil && held.Ino == there.Ino
}

func accessTime(fi fs.FileInfo) time.Time {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Atim.Unix())
	}
	return fi.ModTime()
}

func diskSize(fi fs.FileInfo) int64 {
	const block = 512 // bytes in a unit of st_blocks, stat(2)
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * block
	}
	return fi.Size()
}
