// Contents that are kept in temporary files.

package blob

import (
	"fmt"
	"io"
	"os"
	"sync"

	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/internal/hinterr"
)

// TempFile makes a temporary file without a name, which ends when it is closed.
func TempFile() (*os.File, error) {
	f, err := os.CreateTemp("", "vfix-")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("temporary file: %w", err)
	}
	return f, nil
}

// maxSpool is how many bytes a spool may have: a layer of 2 MB can have files of 2 GB. The largest libraries known have
// 3 GB.
const maxSpool = 8 << 30

// Spool keeps contents that are needed again, one after the other in one temporary file. Its methods may be called
// from several goroutines at once.
type Spool struct {
	mu  sync.Mutex
	f   *os.File
	end int64
}

// KeepStream copies a stream of size bytes and returns a reader of them. Blocks of zeros need no space.
func (s *Spool) KeepStream(r io.Reader, size int64) (*io.SectionReader, error) {
	off, err := s.reserve(size)
	if err != nil {
		return nil, err
	}
	n, err := filecopy.WriteSparse(io.NewOffsetWriter(s.f, off), io.LimitReader(r, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return io.NewSectionReader(s.f, off, size), err
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
	if s.end += size; s.end > maxSpool {
		return 0, hinterr.With(fmt.Errorf("files that need a copy: more than %d bytes", int64(maxSpool)), "the source unpacks to more than any real image: check its origin")
	}
	return off, s.f.Truncate(s.end)
}

// Close removes the contents, and makes the spool empty; readers that KeepStream returned can no longer be used.
func (s *Spool) Close() {
	if s.f != nil {
		s.f.Close()
	}
	s.f, s.end = nil, 0
}
