// Package store keeps patched copies of files, and information about their original folders, under one folder
// (v1 of /var/lib/vfix, see layout):
//
//	files/KEY        a patched copy
//	sums/KEY         the SHA-256 of its content
//	index/KEY        what a scan found
//	leases/NAME      the keys that a start uses; private/NAME has its own copies
//	locks/KIND-KEY   held with flock(2) while an entry is made
//	tmp/             what is being written, locked by who writes it
//
// An entry appears complete, by rename. A killed process leaves a file in tmp that nobody holds; the next
// writer removes it. A copy has its original's mtime, so that the time of its last use is its atime, set by
// Get whatever the mount options say.
//
// Only root may look into the folder: copies have the owner and the mode of their originals,
// setuid included.
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

// ErrUnsound: the folder, or something in it, was changed by something other than this package.
var ErrUnsound = errors.New("not a directory of vfix's own")

// InUse is how recently an entry must have been used to be kept in any case: a container
// that will mount it may not have done so yet.
const InUse = time.Minute

// layout names the folder described above. A version of vfix that keeps something else, or in another way,
// has another number: it works beside this one, and neither touches the other's files.
const layout = "v1"

// The folders of a store.
const (
	filesDir = "files"
	indexDir = "index"
	locksDir = "locks"
	tempDir  = "tmp"
	leaseDir = "leases"
	// sumsDir has the SHA-256 of each copy's content, privateCopies the copies of single starts.
	sumsDir       = "sums"
	privateCopies = "private"
	emptyDir      = "empty" // stays so
)

// Store is an open store.
type Store struct {
	Dir   string // of this layout, in base
	Limit int64  // bytes of all copies together; 0: no bound
	base  string
	lease *lease
	added bool // by Put or WriteIndex: there may be too much
}

// Entry is one thing in a store.
type Entry struct {
	Key   string
	Index bool  // what a scan found, and no copy
	Size  int64 // bytes on the disk
	Used  time.Time
}

// Path is the path of the copy with a key, whether it exists or not.
func (s *Store) Path(key string) string { return filepath.Join(s.Dir, filesDir, key) }

// At is the store in a folder, not open.
func At(base string) *Store { return &Store{Dir: filepath.Join(base, layout), base: base} }

// Trim brings the store within its bound again, if something was added to it.
func (s *Store) Trim() error {
	if !s.added || s.Limit <= 0 {
		return nil
	}
	s.added = false
	_, err := s.Prune(s.Limit)
	return err
}

// List returns the entries, the most recently used first.
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

func sum(all []Entry) int64 {
	var n int64
	for _, e := range all {
		n += e.Size
	}
	return n
}

// Prune removes the least recently used entries until at most limit bytes are left, and incomplete files. It
// returns the removed entries. Entries in use (InUse, Lease) stay. A negative limit removes every entry that
// is not in use.
func (s *Store) Prune(limit int64) ([]Entry, error) {
	if err := s.clean(); err != nil {
		return nil, err
	}
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	held, err := s.leased()
	if err != nil {
		return nil, err
	}
	private, err := s.PrivateBytes()
	if err != nil {
		return nil, err
	}
	left := sum(all) + private
	var gone []Entry
	now := time.Now()
	for i := len(all) - 1; i >= 0 && left > limit; i-- {
		e := all[i]
		if now.Sub(e.Used) < InUse {
			break // those before it were used later
		}
		if held[e.Key] && !e.Index {
			continue
		}
		removed, err := s.Remove(e)
		if err != nil {
			return gone, err
		}
		if removed {
			left -= e.Size
			gone = append(gone, e)
		}
	}
	return gone, nil
}

// PrivateBytes is the disk space of the copies of single starts; they are removed with their starts.
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

// Layout is what a version of vfix with another layout keeps beside this one.
type Layout struct {
	Name  string `json:"name"` // v3, …
	Dir   string `json:"dir"`
	Bytes int64  `json:"bytes"` // on the disk
}

var layoutName = lazy.Regexp(`^v[1-9][0-9]{0,5}$`)

// Others lists the layouts of other versions that hold anything, the oldest first.
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

// treeSize is what a folder takes on the disk, in bytes. A file that goes away meanwhile counts nothing.
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
