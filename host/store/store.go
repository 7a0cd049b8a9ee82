// Package store keeps patched copies of files, and information about their original directories, under one
// directory (v1 of /var/lib/vfix, see layout):
//
//	files/KEY        a patched copy
//	sums/KEY         the SHA-256 of its content
//	index/KEY        the results of a scan
//	leases/NAME      the keys that a start uses; private/NAME has its private copies
//	locks/KIND-KEY   locked with flock(2) while an entry is made
//	tmp/             unfinished files, locked by their writers
//
// An entry appears complete, by rename. A killed process leaves an unlocked file in tmp, which the next writer
// removes. A copy has the mtime of its original, so its atime is the time of its last use, which Get sets whatever
// the mount options are.
//
// Only root may read the directory: copies have the owner and the mode of their originals, including setuid.
package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

	"vfix.dev/vfix/internal/lazy"
)

// ErrUnsound reports that another program changed the directory or something in it.
var ErrUnsound = errors.New("not a directory of vfix's own")

// InUse is the time after its last use for which an entry is kept in any case: a container may still be about to
// mount it.
const InUse = time.Minute

// layout is the version of the structure above. A version of vfix with another structure has another number and
// works beside this one, without touching its files.
const layout = "v1"

// The directories of a store.
const (
	filesDir = "files"
	indexDir = "index"
	locksDir = "locks"
	tempDir  = "tmp"
	leaseDir = "leases"
	// sumsDir has the SHA-256 of each copy's content, privateCopies the copies of single starts.
	sumsDir       = "sums"
	privateCopies = "private"
	emptyDir      = "empty" // always empty
)

// Store is an open store.
type Store struct {
	Dir   string // of this layout, in base
	Limit int64  // size of all copies together, in bytes; 0: no limit
	base  string
	lease *lease
	added bool // by Put or WriteIndex: the limit may be exceeded
}

// Entry is a copy or an index in a store.
type Entry struct {
	Key   string
	Index bool  // an index, not a copy
	Size  int64 // on the disk, in bytes
	Used  time.Time
}

// Path returns the path of the copy with a key, whether it exists or not.
func (s *Store) Path(key string) string { return filepath.Join(s.Dir, filesDir, key) }

// At returns the store in a directory, without opening it.
func At(base string) *Store { return &Store{Dir: filepath.Join(base, layout), base: base} }

// List returns the entries, most recently used first.
func (s *Store) List() ([]Entry, error) {
	var all []Entry
	for _, dir := range []string{filesDir, indexDir} {
		entries, err := os.ReadDir(filepath.Join(s.Dir, dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, d := range entries {
			e, err := s.entry(dir, d.Name())
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed since
			}
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Used.After(all[j].Used) })
	return all, nil
}

func (s *Store) entry(dir, name string) (Entry, error) {
	path := filepath.Join(s.Dir, dir, name)
	fi, err := os.Lstat(path)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Key: name, Index: dir == indexDir, Used: accessTime(fi)}
	e.Size, err = treeSize(path)
	return e, err
}

// PrivateBytes returns the disk space of private copies in bytes; they are removed with their starts.
func (s *Store) PrivateBytes() (n int64, err error) {
	dir := filepath.Join(s.Dir, privateCopies)
	starts, err := os.ReadDir(dir)
	for _, d := range starts {
		one, err := treeSize(filepath.Join(dir, d.Name()))
		if err != nil {
			return n, err
		}
		n += one
	}
	return n, ignoreMissing(err)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Layout has the name and size of a store with another layout.
type Layout struct {
	Name  string `json:"name"` // v3, …
	Dir   string `json:"dir"`
	Bytes int64  `json:"bytes"` // on the disk
}

var layoutName = lazy.Regexp(`^v[1-9][0-9]{0,5}$`)

// Others lists the nonempty stores with other layouts, oldest first.
func (s *Store) Others() ([]Layout, error) {
	entries, err := os.ReadDir(s.base)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var all []Layout
	for _, d := range entries {
		if !d.IsDir() || !layoutName().MatchString(d.Name()) || d.Name() == layout {
			continue
		}
		l := Layout{Name: d.Name(), Dir: filepath.Join(s.base, d.Name())}
		l.Bytes, err = treeSize(l.Dir)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// treeSize returns the disk space of a directory in bytes. A file that is removed meanwhile does not count.
func treeSize(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		var fi fs.FileInfo
		if err == nil {
			fi, err = d.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			n += diskSize(fi)
		}
		return err
	})
	return n, err
}
