// A lease keeps the copies that a start uses until the real runtime has mounted them, however
// long that takes: a file of their keys, locked by a descriptor that the real runtime inherits
// when it is executed. The kernel lets go of it when that process ends. The descriptor can only
// be read, and is of a regular file, so nothing is lost if a runtime hands it on to a container.

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lease is one that is held.
type lease struct {
	path string
	fd   int // locked, and inherited
	keys *os.File
	// copies is how many there are in its folder (Private).
	copies int
}

// Lease begins a lease: what Get and Put return from here on stays until Release, or until
// the process ends and whatever it has executed.
func (s *Store) Lease() error {
	if _, err := s.leased(); err != nil { // what others have left
		return err
	}
	fd, path, err := s.create(leaseDir, unix.O_RDONLY) // without O_CLOEXEC
	if err != nil {
		return err
	}
	keys, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0)
	if err != nil {
		unix.Close(fd)
		return err
	}
	s.lease = &lease{path: path, fd: fd, keys: keys}
	return nil
}

// Release ends a lease, if there is one.
func (s *Store) Release() {
	if s.lease != nil {
		os.RemoveAll(s.privateOf(s.lease.path))
		os.Remove(s.lease.path)
		s.lease.keys.Close()
		unix.Close(s.lease.fd)
		s.lease = nil
	}
}

// privateOf is the folder with the copies of a lease's start.
func (s *Store) privateOf(lease string) string {
	return filepath.Join(s.Dir, privateCopies, filepath.Base(lease))
}

// keep notes that a key is used, before anybody can look whether it is.
func (s *Store) keep(key string) error {
	if s.lease == nil {
		return nil
	}
	_, err := s.lease.keys.WriteString(key + "\n")
	return err
}

// leased returns the keys that leases hold, and removes leases that nobody has any more with
// the copies of their starts.
func (s *Store) leased() (map[string]bool, error) {
	dir := filepath.Join(s.Dir, leaseDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	held := map[string]bool{}
	for _, d := range entries {
		path := filepath.Join(dir, d.Name())
		f, err := hold(path, unix.O_RDONLY)
		switch {
		case err == nil:
			err = errors.Join(os.RemoveAll(s.privateOf(path)), ignoreMissing(os.Remove(path)))
			f.Close()
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			var b []byte
			if b, err = os.ReadFile(path); err == nil {
				for key := range strings.Lines(string(b)) {
					held[strings.TrimSuffix(key, "\n")] = true
				}
			}
		}
		if ignoreMissing(err) != nil {
			return nil, err
		}
	}
	return held, nil
}
