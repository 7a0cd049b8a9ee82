// Package sparse copies files so that holes stay holes.
package sparse

import (
	"bytes"
	"io"
	"os"
)

const (
	// block is how many bytes are a hole or none: the block of most file systems.
	block = 4 << 10
	// buffer is how much is read at once, in bytes.
	buffer = 64 << 10
)

var zeros [block]byte

// Copy writes all of src to an empty file, without the blocks that are zeros alone, and returns
// how many bytes the file has then.
func Copy(dst *os.File, src io.Reader) (n int64, err error) {
	buf := make([]byte, buffer)
	for err == nil {
		k := 0
		for k < len(buf) && err == nil { // io.ReadFull would take an unexpected end for the end
			var got int
			got, err = src.Read(buf[k:])
			k += got
		}
		if werr := write(dst, buf[:k], n); werr != nil {
			return n, werr
		}
		n += int64(k)
	}
	if err != io.EOF {
		return n, err
	}
	return n, dst.Truncate(n)
}

// write writes the parts of b that are not holes, at the offset off.
func write(dst *os.File, b []byte, off int64) error {
	for len(b) > 0 {
		data := 0 // bytes up to the next hole
		for data < len(b) && !hole(b[data:]) {
			data = min(data+block, len(b))
		}
		if data > 0 {
			if _, err := dst.WriteAt(b[:data], off); err != nil {
				return err
			}
		}
		skip := min(len(b), data+block)
		b, off = b[skip:], off+int64(skip)
	}
	return nil
}

// hole reports whether b begins with a block of zeros.
func hole(b []byte) bool {
	n := min(block, len(b))
	return bytes.Equal(b[:n], zeros[:n])
}
