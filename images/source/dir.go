// Directories as a destination: the checks before something is written.

package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vfix.dev/vfix/internal/hinterr"
)

// CheckRootDest returns an error if a root filesystem cannot be written to a directory, which must be missing or empty.
func CheckRootDest(dir string) error {
	fi, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !fi.IsDir() {
		err = fmt.Errorf("%s: exists and is not a directory", dir)
	}
	if err == nil {
		var entries []os.DirEntry
		if entries, err = os.ReadDir(dir); err == nil && len(entries) > 0 {
			err = fmt.Errorf("%s: exists and is not empty", dir)
		}
	}
	return hinterr.With(err, "name a directory that does not exist yet, or an empty one")
}

// CheckNotInside returns an error for a directory to write in the directory of its source.
func CheckNotInside(src *Source, dest Ref) error {
	if dest.Transport == Dir && src.Image == nil && Inside(src.Path, dest.Name) {
		return ErrInside(dest.Name, src.Path)
	}
	return nil
}

// ErrInside returns the error for an output that is inside its input.
func ErrInside(out, in string) error {
	return hinterr.With(fmt.Errorf("%s is inside %s, which is copied there", out, in), "name a directory outside of it")
}

// Inside reports whether name, which need not exist, is in the directory dir.
func Inside(dir, name string) bool {
	paths := [...]string{dir, filepath.Dir(filepath.Clean(name))}
	for i, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			paths[i], err = filepath.Abs(real)
		}
		if err != nil {
			return false
		}
	}
	rel, err := filepath.Rel(paths[0], paths[1])
	return err == nil && filepath.IsLocal(rel)
}
