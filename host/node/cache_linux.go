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
	// lookAgain is after how long a directory of which a start could not see everything is looked at again.
	lookAgain = 24 * time.Hour
	// maxCache limits the size of a cache, in bytes.
	maxCache = 256 << 20
)

// openCache makes the directory of the cache below the directory of vfix's state, which must be this user's alone.
func openCache(state string) (*cache, error) {
	dir := filepath.Join(state, "layers")
	const private = 0o700
	if err := os.MkdirAll(dir, private); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Stat(state, &st); err != nil {
		return nil, fmt.Errorf("%s: %w", state, err)
	}
	const othersWrite = 0o022
	if int(st.Uid) != os.Geteuid() || st.Mode&othersWrite != 0 {
		return nil, fmt.Errorf("%s: others than user %d can write to it", state, os.Geteuid())
	}
	return &cache{dir, maxCache}, nil
}

func (c *cache) path(key string) string { return filepath.Join(c.dir, key) }

// get returns what is known under a key; nil for nothing.
func (c *cache) get(key string) *findings {
	text, err := os.ReadFile(c.path(key))
	if err != nil {
		return nil
	}
	sum, body, _ := bytes.Cut(text, []byte("\n"))
	f := &findings{}
	if string(sum) != checksum(body) || json.Unmarshal(body, f) != nil {
		return nil
	}
	if len(f.Left) > 0 && time.Since(f.Time) > lookAgain {
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

// put stores findings, and removes the entries that were used least recently until the cache has its size. A torn entry
// has another checksum.
func (c *cache) put(key string, f *findings) error {
	const private = 0o600
	body, err := json.Marshal(f)
	if err == nil {
		err = os.WriteFile(c.path(key), []byte(checksum(body)+"\n"+string(body)), private)
	}
	names, rerr := os.ReadDir(c.dir)
	if err := errors.Join(err, rerr); err != nil {
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
