// A lease keeps the copies that a start uses until the real runtime has mounted them, however long that takes. It
// is a file of their keys, locked by a descriptor that the real runtime inherits. The kernel releases the lock
// when that process ends. The descriptor is read-only and of a regular file, so a runtime may even pass it on to a
// container.

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lease is a held lease.
type lease struct {
	path string
	fd   int // locked, and inherited
	keys *os.File
	// copies is the number of copies in its directory (Private).
	copies int
}

// Lease begins a lease: copies that Get and Put return from then on stay until Release, or until this process and
// the programs that it executed end.
func (s *Store) Lease() error {
	if _, err := s.leased(); err != nil { // removes abandoned leases
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

// privateOf returns the directory with the private copies of a lease's start.
func (s *Store) privateOf(lease string) string {
	return filepath.Join(s.Dir, privateCopies, filepath.Base(lease))
}

// keep adds a key to the lease before the caller uses the copy.
func (s *Store) keep(key string) error {
	if s.lease == nil {
		return nil
	}
	_, err := s.lease.keys.WriteString(key + "\n")
	return err
}

// leased returns the keys of all leases, and removes abandoned leases with the copies of their starts.
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
