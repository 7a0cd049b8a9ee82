// What other versions of vfix have in the folder of a store.

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"vfix.dev/vfix/internal/lazy"
)

// Layout is what a version of vfix with another layout keeps beside this one.
type Layout struct {
	Name string `json:"name"` // v1, v3, …
	Dir  string `json:"dir"`
	// Known says that this version can list and prune it. The first layout has the folders of
	// this one, in the base itself.
	Known bool  `json:"-"`
	Bytes int64 `json:"bytes"` // on the disk
}

var layoutName = lazy.Regexp(`^v[1-9][0-9]{0,5}$`)

func isLayout(name string) bool { return layoutName().MatchString(name) }

// firstLayout has no folder of its own.
const firstLayout = "v1"

// Others lists the layouts of other versions that hold anything, the oldest first.
func (s *Store) Others() ([]Layout, error) {
	entries, err := os.ReadDir(s.base)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var all []Layout
	if first := (&Store{Dir: s.base, base: s.base}); first.anything() {
		listed, err := first.List()
		if err != nil {
			return nil, err
		}
		all = append(all, Layout{Name: firstLayout, Dir: s.base, Known: true, Bytes: sum(listed)})
	}
	for _, d := range entries {
		if !d.IsDir() || !isLayout(d.Name()) || d.Name() == layout || d.Name() == firstLayout {
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

// Older is the store of an older version's layout, to be listed or pruned; nil for one that this
// version does not know.
func (s *Store) Older(l Layout) *Store {
	if !l.Known {
		return nil
	}
	return &Store{Dir: l.Dir, base: s.base, Limit: s.Limit}
}

// anything reports whether there is an entry.
func (s *Store) anything() bool {
	for _, dir := range []string{filesDir, indexDir} {
		if all, err := os.ReadDir(filepath.Join(s.Dir, dir)); err == nil && len(all) > 0 {
			return true
		}
	}
	return false
}

// treeSize is what a folder takes on the disk, in bytes. What goes away meanwhile counts nothing.
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
