// Temporary files, and contents that are kept in them.

package blob

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/internal/hinterr"
)

// TempFile makes a temporary file that does not outlive the process: it loses its name at once if the system allows
// that, and otherwise when RemoveTemp is called.
func TempFile() (*os.File, error) {
	f, err := os.CreateTemp("", "vfix-")
	if err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	os.Remove(f.Name())
	return f, nil
}

// RemoveTemp closes what TempFile made and removes what may be left of it.
func RemoveTemp(f *os.File) {
	if f != nil {
		f.Close()
		os.Remove(f.Name())
	}
}

// maxTemp is how many bytes the kept contents of a process may have together, without their holes: a layer of 2 MB can
// have files of 2 GB. The largest libraries known have 3 GB, and two layers are read at once.
const maxTemp = 8 << 30

// tempUsed is how many there are.
var tempUsed atomic.Int64

// holeWriter writes a stream at ascending offsets and leaves out blocks of zeros: a file of zeros, which needs almost
// no space in an archive, must not fill the disk.
type holeWriter struct {
	w     io.WriterAt
	n     int64 // bytes so far, holes included
	taken int64 // of maxTemp
}

var zeroBlock [CopyBuffer]byte

// copy writes all of r.
func (h *holeWriter) copy(r io.Reader) error {
	buf := make([]byte, CopyBuffer)
	for {
		k, err := filecopy.Fill(r, buf)
		if k > 0 && !bytes.Equal(buf[:k], zeroBlock[:k]) {
			h.taken += int64(k)
			if tempUsed.Add(int64(k)) > maxTemp {
				return hinterr.With(hinterr.Errorf(hinterr.ErrTooLarge, "temporary files: more than %d bytes", int64(maxTemp)), "the source unpacks to more than any real image: check its origin")
			}
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

// Spool keeps contents that are needed again, one after the other in one temporary file. Its methods may be called
// from several goroutines at once.
type Spool struct {
	mu    sync.Mutex
	f     *os.File
	end   int64
	taken int64
}

// KeepStream copies a stream of size bytes and returns a reader of them.
func (s *Spool) KeepStream(r io.Reader, size int64) (*io.SectionReader, error) {
	off, err := s.reserve(size)
	if err != nil {
		return nil, err
	}
	w := &holeWriter{w: io.NewOffsetWriter(s.f, off)}
	err = w.copy(r)
	s.mu.Lock()
	s.taken += w.taken
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if w.n != size {
		return nil, io.ErrUnexpectedEOF
	}
	return io.NewSectionReader(s.f, off, size), nil
}

// reserve makes the file size bytes longer, as a hole, and returns the offset of that.
func (s *Spool) reserve(size int64) (off int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		if s.f, err = TempFile(); err != nil {
			return 0, err
		}
	}
	off = s.end
	s.end += size
	return off, s.f.Truncate(s.end)
}

// Close removes the contents, and makes the spool empty; readers that KeepStream returned can no longer be used.
func (s *Spool) Close() {
	RemoveTemp(s.f)
	tempUsed.Add(-s.taken)
	s.f, s.end, s.taken = nil, 0, 0
}
