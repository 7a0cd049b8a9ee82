// A root filesystem in a folder as an fs.FS: its files can be read at any offset, and symlinks are followed inside it.

package rootpath

import (
	"errors"
	"io/fs"
	"os"
)

// Folder is a root filesystem in a folder. No symlink in it leads out of it.
type Folder struct{ root *os.Root }

// OpenFolder opens the root filesystem in a folder. The caller must Close it.
func OpenFolder(name string) (*Folder, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Close gives the folder back.
func (f *Folder) Close() error { return f.root.Close() }

// Open opens a regular file or a folder by its path from the root, without a leading slash.
func (f *Folder) Open(name string) (fs.File, error) {
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
