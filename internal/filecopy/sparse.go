// Copies files so that holes stay holes.

// Package filecopy has what a copy of a file needs beside its bytes: holes, extended attributes, and the marks among them.
package filecopy

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

// CopySparse writes all of src to an empty file, without the blocks that are zeros alone, and returns
// how many bytes the file has then.
func CopySparse(dst *os.File, src io.Reader) (n int64, err error) {
	if n, err = WriteSparse(dst, src); err != nil {
		return n, err
	}
	return n, dst.Truncate(n)
}

// WriteSparse writes all of src to where there are zeros, without the blocks that are zeros alone, and returns how many
// bytes src had.
func WriteSparse(dst io.WriterAt, src io.Reader) (n int64, err error) {
	buf := make([]byte, buffer)
	for err == nil {
		var k int
		k, err = Fill(src, buf)
		if werr := write(dst, buf[:k], n); werr != nil {
			return n, werr
		}
		n += int64(k)
	}
	if err != io.EOF {
		return n, err
	}
	return n, nil
}

// write writes the parts of b that are not holes, at the offset off.
func write(dst io.WriterAt, b []byte, off int64) error {
	for len(b) > 0 {
		data := 0 // bytes up to the next hole
		for data < len(b) && !bytes.HasPrefix(zeros[:], b[data:min(data+block, len(b))]) {
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

// Fill reads until buf is full or r has no more. Unlike io.ReadFull it distinguishes an archive
// that ends early (io.ErrUnexpectedEOF from r) from the end of r (io.EOF).
func Fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var k int
		k, err = r.Read(buf[n:])
		n += k
	}
	return n, err
}
