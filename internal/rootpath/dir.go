// A root filesystem in a directory as an fs.FS: its files can be read at any offset, and symlinks are followed inside
// it.

package rootpath

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// Dir is a root filesystem in a directory. No symlink in it leads out of it. The directories in which names were looked
// for stay open, as a loader looks for many names in few directories.
type Dir struct {
	root *os.Root
	dirs map[string]opened
}

// opened is a directory, or the error of opening it.
type opened struct {
	root *os.Root
	err  error
}

// OpenDir opens the root filesystem in a directory. The caller must Close it.
func OpenDir(name string) (*Dir, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &Dir{root, map[string]opened{}}, nil
}

// Close gives the directories back.
func (f *Dir) Close() error {
	for _, d := range f.dirs {
		if d.err == nil {
			d.root.Close()
		}
	}
	return f.root.Close()
}

// Open opens a regular file or a directory by its path from the root, without a leading slash.
func (f *Dir) Open(name string) (fs.File, error) {
	parent, base := path.Split(name)
	d := f.dir(parent)
	if d.err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: d.err}
	}
	fi, err := d.root.Lstat(base)
	if err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		if base, err = In(f.root, name); err == nil {
			d.root = f.root
			fi, err = d.root.Lstat(base)
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if !fi.Mode().IsRegular() && !fi.IsDir() { // opening a FIFO would wait for its writer
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return d.root.Open(base)
}

// dir opens a directory, or finds it open.
func (f *Dir) dir(name string) opened {
	d, known := f.dirs[name]
	if known {
		return d
	}
	real, err := In(f.root, name)
	if d.err = err; err == nil {
		d.root, d.err = f.root.OpenRoot(real)
	}
	f.dirs[name] = d
	return d
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
