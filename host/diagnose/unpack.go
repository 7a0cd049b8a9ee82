// Reads of a compressed core at any offset, with little memory and no temporary file: a diagnosis reads only a few
// pages. A read behind the previous one continues from there, a read before it starts again at the first byte.

package diagnose

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxRestarts bounds the time. A valid core needs a restart to follow its loader's list, or if its last
	// segment has what the first one refers to.
	maxRestarts = 64
	// maxZstdWindow is the largest accepted window, in bytes: the limit of zstd without --long
	// (ZSTD_WINDOWLOG_LIMIT_DEFAULT, 27).
	maxZstdWindow = 128 << 20
)

// unpacker is an io.ReaderAt over compressed content. It is not safe for concurrent use.
type unpacker struct {
	f        *os.File
	kind     format
	r        io.Reader
	close    func()
	at       int64
	restarts int
}

// restart starts again at the first byte.
func (u *unpacker) restart() (io.Reader, error) {
	if u.restarts++; u.restarts > maxRestarts {
		return nil, damaged("the order of its parts requires unpacking it more than %d times", maxRestarts)
	}
	u.Close()
	u.at = 0
	packed := io.NewSectionReader(u.f, 0, 1<<62)
	if u.kind == isGzip {
		r, err := gzip.NewReader(packed)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		u.r, u.close = r, func() { r.Close() }
		return u, nil
	}
	r, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	u.r, u.close = r, r.Close
	return u, nil
}

// Read continues after the previous read.
func (u *unpacker) Read(b []byte) (int, error) {
	n, err := u.r.Read(b)
	u.at += int64(n)
	return n, err
}

// ReadAt implements io.ReaderAt.
func (u *unpacker) ReadAt(b []byte, off int64) (int, error) {
	if u.r == nil || off < u.at {
		if _, err := u.restart(); err != nil {
			return 0, err
		}
	}
	if off > u.at {
		if _, err := io.CopyN(io.Discard, u, off-u.at); err != nil {
			return 0, err
		}
	}
	n, err := io.ReadFull(u, b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// Close releases the decompressor; it does not close the file.
func (u *unpacker) Close() {
	if u.close != nil {
		u.close()
	}
	u.r, u.close = nil, nil
}
