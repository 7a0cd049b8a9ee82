// A root filesystem in a directory as an fs.FS: its files can be read at any offset, and symlinks are followed inside
// it.

package rootpath

import (
	"errors"
	"io/fs"
	"os"
)

// Dir is a root filesystem in a directory. No symlink in it leads out of it.
type Dir struct{ root *os.Root }

// OpenDir opens the root filesystem in a directory. The caller must Close it.
func OpenDir(name string) (*Dir, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &Dir{root}, nil
}

// Close gives the directory back.
func (f *Dir) Close() error { return f.root.Close() }

// Open opens a regular file or a directory by its path from the root, without a leading slash.
func (f *Dir) Open(name string) (fs.File, error) {
	real, err := In(f.root, name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	fi, err := f.root.Lstat(real)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() && !fi.IsDir() { // opening a FIFO would wait for its writer
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return f.root.Open(real)
}
