// Package sparse copies files so that holes stay holes.
package sparse

import (
	"bytes"
	"io"
	"os"
)

// block is how many bytes are a hole or none: no file system has larger blocks than that by
// default, and most programs have no such run of zeros.
const block = 64 << 10

var zeros [block]byte

// Copy writes all of src to an empty file, without the blocks that are zeros alone, and returns
// how many bytes the file has then.
func Copy(dst *os.File, src io.Reader) (n int64, err error) {
	buf := make([]byte, block)
	for err == nil {
		var k int
		k, err = io.ReadFull(src, buf)
		if k > 0 && !bytes.Equal(buf[:k], zeros[:k]) {
			if _, werr := dst.WriteAt(buf[:k], n); werr != nil {
				return n, werr
			}
		}
		n += int64(k)
	}
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return n, err
	}
	return n, dst.Truncate(n)
}
