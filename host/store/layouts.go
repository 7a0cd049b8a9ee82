// The files of other versions of vfix in the folder of a store.

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
