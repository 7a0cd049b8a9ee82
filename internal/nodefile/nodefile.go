// Package nodefile reads and locks files and directories of a node that other processes may be using.
package nodefile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Read reads a regular file of at most this many bytes. It never blocks, not even if a FIFO has taken its
// place.
func Read(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	b := bytes.NewBuffer(make([]byte, 0, min(fi.Size(), most)+bytes.MinRead))
	if _, err = b.ReadFrom(io.LimitReader(f, most+1)); err == nil && int64(b.Len()) > most {
		err = fmt.Errorf("%s: more than %d bytes", path, most)
	}
	return b.Bytes(), err
}
