package images

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
)

// tempFile makes a temporary file that is gone as soon as the process is: it loses its
// name at once where the system allows that, and else when removeTemp is called.
func tempFile() (*os.File, error) {
	f, err := os.CreateTemp("", "vfix-")
	if err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	os.Remove(f.Name())
	return f, nil
}

// removeTemp closes what tempFile made and removes what may be left of it.
func removeTemp(f *os.File) {
	if f != nil {
		f.Close()
		os.Remove(f.Name())
	}
}

// spool keeps contents that are needed again, one behind the other in one temporary file.
// Its methods may be called from several goroutines at once.
type spool struct {
	mu  sync.Mutex
	f   *os.File
	end int64
}

// keep copies size bytes of r and returns where they can be read from now on.
func (s *spool) keep(r io.ReaderAt, size int64) (*io.SectionReader, error) {
	return s.keepStream(io.NewSectionReader(r, 0, size), size)
}

// keepStream is keep for a stream of size bytes.
func (s *spool) keepStream(r io.Reader, size int64) (*io.SectionReader, error) {
	off, err := s.reserve(size)
	if err != nil {
		return nil, err
	}
	w := &holeWriter{w: io.NewOffsetWriter(s.f, off)}
	if err := w.copy(r); err != nil {
		return nil, err
	}
	if w.n != size {
		return nil, io.ErrUnexpectedEOF
	}
	return io.NewSectionReader(s.f, off, size), nil
}

// reserve makes the file size bytes longer, as a hole, and returns where that begins.
func (s *spool) reserve(size int64) (off int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		if s.f, err = tempFile(); err != nil {
			return 0, err
		}
	}
	off = s.end
	s.end += size
	return off, s.f.Truncate(s.end)
}

// Close gives the room back; what keep returned can no longer be read.
func (s *spool) Close() {
	removeTemp(s.f)
	s.f = nil
}

// holeWriter writes a stream at ascending offsets and leaves out blocks of zeros: a file
// of nothing but zeros, which costs an archive next to nothing, shall not fill the disk.
type holeWriter struct {
	w io.WriterAt
	n int64 // bytes so far, holes included
}

var zeroBlock [copyBuffer]byte

// copy writes all of r.
func (h *holeWriter) copy(r io.Reader) error {
	buf := make([]byte, copyBuffer)
	for {
		k, err := fill(r, buf)
		if k > 0 && !bytes.Equal(buf[:k], zeroBlock[:k]) {
			if _, werr := h.w.WriteAt(buf[:k], h.n); werr != nil {
				return werr
			}
		}
		h.n += int64(k)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fill reads until buf is full or r has no more. Unlike io.ReadFull it tells an archive
// that ends early (io.ErrUnexpectedEOF from r) from the end of r (io.EOF).
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var k int
		k, err = r.Read(buf[n:])
		n += k
	}
	return n, err
}
