// A root filesystem in a directory as an fs.FS: its files can be read at any offset, and symlinks are followed inside
// it.

package rootpath

import (
	"errors"
	"fmt"
	"io"
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
	real := name
	fi, err := f.root.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // os.Root follows no symlink that begins at the root
		if real, err = In(f.root, name); err == nil {
			fi, err = f.root.Lstat(real)
		}
	}
	if err == nil && !fi.Mode().IsRegular() && !fi.IsDir() { // opening a FIFO would wait for its writer
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f.root.Open(real)
}

// OpenFile opens a regular file of a root filesystem for reading at any offset, and returns its
// size in bytes and the function that closes it. It returns an error if root cannot read at an offset.
func OpenFile(root fs.FS, name string) (io.ReaderAt, int64, func() error, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, 0, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", name)
	}
	r, ok := f.(io.ReaderAt)
	if err == nil && !ok {
		err = fmt.Errorf("%s: cannot be read at an offset", name)
	}
	if err != nil {
		f.Close()
		return nil, 0, nil, err
	}
	return r, fi.Size(), f.Close, nil
}
