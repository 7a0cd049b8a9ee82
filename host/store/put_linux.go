// Writes to a store (copies, indexes, scratch files), and removal of entries.

package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/nodefile"
)

// Put makes the copy with a key if it does not exist, and returns its path. The store may then exceed its limit:
// see Trim. If several processes need the same copy, one writes it and the others wait. size is as for Get. write
// gets an empty temporary file, to which it writes the content and metadata.
func (s *Store) Put(key string, size int64, write func(f *os.File) error) (string, error) {
	if path, ok := s.Get(key, size); ok {
		return path, nil
	}
	unlock, err := s.Lock("copy", key)
	if err != nil {
		return "", err
	}
	defer unlock()
	if path, ok := s.Get(key, size); ok {
		return path, nil // another process was faster
	}
	p, err := s.begin()
	if err != nil {
		return "", err
	}
	defer p.discard()
	s.added = true
	err = write(p.File)
	if err == nil {
		err = touch(p.Name())
	}
	if err == nil {
		err = errors.Join(s.keep(key), s.writeSum(key, p.Name()))
	}
	if err == nil {
		err = setImmutable(s.Path(key), false)
	}
	if err != nil {
		return "", err
	}
	// Without a wait for the disk: a copy that a power failure truncates does not match its sum.
	return s.Path(key), p.rename(s.Path(key))
}

// Protect makes a copy immutable (ioctl_iflags(2)), for copies that several containers mount as long as they
// exist: the flag belongs to the file, and only CAP_LINUX_IMMUTABLE on the machine can clear it.
func (s *Store) Protect(key string) error { return setImmutable(s.Path(key), true) }

// setImmutable sets or clears the immutable flag, if the file system has it.
func setImmutable(path string, on bool) error {
	const immutable = 0x10 // FS_IMMUTABLE_FL, linux/fs.h
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ignoreMissing(err)
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	want := flags &^ immutable
	if on {
		want |= immutable
	}
	if err == nil && want != flags {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(want))
	}
	if !on && (errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP)) {
		return nil // there is no such flag
	}
	return err
}

// ReadIndex returns the data of WriteIndex for a key, or fs.ErrNotExist.
func (s *Store) ReadIndex(key string) ([]byte, error) {
	path := filepath.Join(s.Dir, indexDir, key)
	b, err := nodefile.Text(path)
	if err == nil {
		touch(path)
	}
	return b, err
}

// WriteIndex stores the results of a scan. The caller holds the lock of its key.
func (s *Store) WriteIndex(key string, data []byte) error {
	s.added = true
	p, err := s.begin()
	if err != nil {
		return err
	}
	defer p.discard()
	if _, err := p.Write(data); err != nil {
		return err
	}
	// Without a wait for the disk: an index that a power failure truncates is detected, and made again.
	return p.rename(filepath.Join(s.Dir, indexDir, key))
}

// pending is a file that is being written. It is locked as long as its writer runs.
type pending struct{ *os.File }

func (s *Store) begin() (*pending, error) {
	fd, path, err := s.create(tempDir, unix.O_RDWR|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &pending{os.NewFile(uintptr(fd), path)}, nil
}

// create creates a file with a new name in a directory of the store, and locks it. Before the lock, another
// process may remove it as a leftover: then it creates another one.
func (s *Store) create(dir string, flags int) (fd int, path string, err error) {
	const tries = 10
	for range tries {
		path = filepath.Join(s.Dir, dir, rand.Text())
		if fd, err = unix.Open(path, flags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, privateFile); err != nil {
			return -1, path, fmt.Errorf("%s: %w", path, err)
		}
		err = unix.Flock(fd, unix.LOCK_EX)
		if err == nil && named(fd, path) {
			return fd, path, nil
		}
		unix.Close(fd)
		if err != nil {
			return -1, path, fmt.Errorf("%s: lock: %w", path, err)
		}
	}
	return -1, path, fmt.Errorf("%s: removed by another process", path)
}

// Scratch opens an empty private file. Its name is removed at once.
func (s *Store) Scratch() (*os.File, error) {
	p, err := s.begin()
	if err != nil {
		return nil, err
	}
	if err := os.Remove(p.Name()); err != nil {
		p.Close()
		return nil, err
	}
	return p.File, nil
}

func (p *pending) rename(path string) error {
	if err := os.Rename(p.Name(), path); err != nil {
		return err
	}
	return p.Close()
}

// discard removes the file, unless it was renamed. It is for defer.
func (p *pending) discard() {
	os.Remove(p.Name())
	p.Close()
}

func (s *Store) sweep(name string) error {
	dir := filepath.Join(s.Dir, name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, d := range entries {
		path := filepath.Join(dir, d.Name())
		f, err := hold(path, unix.O_RDONLY)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = os.RemoveAll(path)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// hold opens and locks a file or directory; if another process holds the lock, the error is EWOULDBLOCK.
func hold(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Remove renames an entry before it removes it, so that nobody sees a part of it. It puts back a copy that was
// used since it was listed, as its user has passed it to a container as a mount, and returns false.
func (s *Store) Remove(e Entry) (removed bool, err error) {
	dir := filesDir
	if e.Index {
		dir = indexDir
	}
	path := filepath.Join(s.Dir, dir, e.Key)
	gone := filepath.Join(s.Dir, tempDir, "gone-"+e.Key)
	held, err := hold(path, unix.O_RDONLY) // so that no other process removes it meanwhile
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil // another process removes it
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	}
	defer held.Close()
	if err := setImmutable(path, false); err != nil {
		return false, err
	}
	if err := os.Rename(path, gone); err != nil {
		return errors.Is(err, fs.ErrNotExist), ignoreMissing(err)
	}
	if s.usedSince(e, held) && os.Rename(gone, path) == nil {
		return false, nil
	}
	if !e.Index {
		os.Remove(filepath.Join(s.Dir, sumsDir, e.Key))
	}
	return true, os.RemoveAll(gone)
}

// usedSince reports whether an entry, open as f, was used after it was listed.
func (s *Store) usedSince(e Entry, f *os.File) bool {
	if leased, err := s.leased(); err != nil || leased[e.Key] && !e.Index {
		return true
	}
	// Not for a directory: a list of it changes its access time.
	fi, err := f.Stat()
	return err == nil && fi.Mode().IsRegular() && accessTime(fi).After(e.Used)
}
