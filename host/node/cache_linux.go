// The cache: what is known about a list of layers. It has patches, not patched files: a torn or foreign entry matches no
// file, and so changes none.

package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// cache is a directory with one file for each key: the hash of its text, a line feed, the text.
type cache struct {
	dir   string
	limit int64 // bytes
}

const (
	layersDir, locksDir = "layers", "locks"
	private             = 0o700
	// lookAgain is after how long layers of which a start could not see everything are looked at again.
	lookAgain = 24 * time.Hour
)

// maxCache limits the size of a cache, in bytes.
const maxCache = 256 << 20

// openCache makes the directories of the cache, which must be this user's alone.
func openCache(dir string) (*cache, error) {
	for _, d := range []string{layersDir, locksDir} {
		if err := os.MkdirAll(filepath.Join(dir, d), private); err != nil {
			return nil, err
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	const othersWrite = 0o022
	if int(st.Uid) != os.Geteuid() || st.Mode&othersWrite != 0 {
		return nil, fmt.Errorf("%s: others than user %d can write to it", dir, os.Geteuid())
	}
	return &cache{dir, maxCache}, nil
}

func (c *cache) path(key string) string { return filepath.Join(c.dir, layersDir, key) }

// cacheKey is the name of an entry: maker is the version of vfix and what it is asked for, layers what root.identity
// returns.
func cacheKey(maker, layers string) string {
	sum := sha256.Sum256([]byte(maker + "\n" + layers))
	return hex.EncodeToString(sum[:])
}

// get returns what is known under a key; nil for nothing.
func (c *cache) get(key string) *findings {
	text, err := os.ReadFile(c.path(key))
	if err != nil {
		return nil
	}
	sum, body, _ := bytes.Cut(text, []byte("\n"))
	f := &findings{}
	if string(sum) != checksum(body) || json.Unmarshal(body, f) != nil || f.check() != nil {
		return nil
	}
	if f.Cut != "" && time.Since(f.Time) > lookAgain {
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(c.path(key), now, now) // of its last use
	return f
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// check returns an error for findings that no walk makes.
func (f *findings) check() error {
	for _, t := range f.Targets {
		if t == nil || len(t.Names) == 0 {
			return errors.New("a target without a name")
		}
		if err := t.Check(t.Size); err != nil {
			return err
		}
	}
	return nil
}

// put stores findings, and removes the entries that were used least recently if there are too many. It needs no fsync:
// a torn entry has another checksum.
func (c *cache) put(key string, f *findings) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	w, err := os.CreateTemp(c.dir, ".entry-")
	if err != nil {
		return err
	}
	defer os.Remove(w.Name())
	_, err = w.WriteString(checksum(body) + "\n" + string(body))
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := os.Rename(w.Name(), c.path(key)); err != nil {
		return err
	}
	return c.prune()
}

// prune removes entries until the cache has its size.
func (c *cache) prune() error {
	names, err := os.ReadDir(filepath.Join(c.dir, layersDir))
	if err != nil {
		return err
	}
	var all []fs.FileInfo
	var size int64
	for _, d := range names {
		if fi, err := d.Info(); err == nil {
			all = append(all, fi)
			size += fi.Size()
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, fi := range all {
		if size <= c.limit {
			break
		}
		if os.Remove(c.path(fi.Name())) == nil {
			size -= fi.Size()
		}
	}
	return nil
}

// lock waits until no other start looks at the layers of a key; the error says that this took too long. Keys share a
// limited number of locks.
func (c *cache) lock(key string, until time.Time) (unlock func(), err error) {
	const digits = 2
	f, err := os.OpenFile(filepath.Join(c.dir, locksDir, key[:digits]), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if time.Now().After(until) {
			f.Close()
			return nil, fmt.Errorf("%w: another start still examines the same image", errBound)
		}
		const interval = 5 * time.Millisecond
		time.Sleep(interval)
	}
}
