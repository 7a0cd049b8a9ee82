// The files of the system that the program ran in. A root is an fs.FS whose files can be
// read at any offset, and that follows symlinks inside itself.

package diagnose

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"vfix.dev/vfix/internal/packages"
	"vfix.dev/vfix/internal/rootpath"
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
	real, err := rootpath.In(f.root, name)
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

// rootName is the path of a file for fs.FS: without leading slashes, cleaned.
func rootName(name string) string {
	name = path.Clean("/" + name)[1:]
	if name == "" {
		return "."
	}
	return name
}

// openFile is packages.OpenFile for a name as a crash has it: absolute, or relative to the root.
func openFile(root fs.FS, name string) (io.ReaderAt, int64, func() error, error) {
	return packages.OpenFile(root, rootName(name))
}
