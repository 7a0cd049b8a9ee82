package rootpath

import (
	"fmt"
	"io"
	"io/fs"
)

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
