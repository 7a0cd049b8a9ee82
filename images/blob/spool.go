// Temporary files: how much they may hold, contents that are kept in one, and writing zeros as holes.

package blob

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/sparse"
)

// TempFile makes a temporary file that does not outlive the process: it loses its
// name at once if the system allows that, and otherwise when RemoveTemp is called.
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

// Spool keeps contents that are needed again, one after the other in one temporary file.
// Its methods may be called from several goroutines at once.
type Spool struct {
	mu  sync.Mutex
	f   *os.File
	end int64
	// taken is how many bytes of Temp the file uses.
	taken int64
}

// Keep copies size bytes of r and returns a reader of them.
func (s *Spool) Keep(r io.ReaderAt, size int64) (*io.SectionReader, error) {
	return s.KeepStream(io.NewSectionReader(r, 0, size), size)
}

// KeepStream is keep for a stream of size bytes.
func (s *Spool) KeepStream(r io.Reader, size int64) (*io.SectionReader, error) {
	off, err := s.reserve(size)
	if err != nil {
		return nil, err
	}
	w := &HoleWriter{W: io.NewOffsetWriter(s.f, off), Room: Temp}
	err = w.Copy(r)
	s.mu.Lock()
	s.taken += w.taken
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if w.N != size {
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

// Close releases the room; readers that Keep returned can no longer be used.
func (s *Spool) Close() {
	RemoveTemp(s.f)
	s.f = nil
	Temp.give(s.taken)
	s.taken = 0
}

// HoleWriter writes a stream at ascending offsets and leaves out blocks of zeros: a file
// of zeros, which needs almost no space in an archive, must not fill the disk.
type HoleWriter struct {
	W io.WriterAt
	N int64 // bytes so far, holes included
	// Room is where the bytes come from, without the holes; nil: they are not counted.
	Room  *Room
	taken int64 // of Room
}

func (h *HoleWriter) take(n int) error {
	if h.Room == nil {
		return nil
	}
	if err := h.Room.take(int64(n)); err != nil {
		return err
	}
	h.taken += int64(n)
	return nil
}

var zeroBlock [CopyBuffer]byte

// Copy writes all of r.
func (h *HoleWriter) Copy(r io.Reader) error {
	buf := make([]byte, CopyBuffer)
	for {
		k, err := sparse.Fill(r, buf)
		if k > 0 && !bytes.Equal(buf[:k], zeroBlock[:k]) {
			if err := h.take(k); err != nil {
				return err
			}
			if _, werr := h.W.WriteAt(buf[:k], h.N); werr != nil {
				return werr
			}
		}
		h.N += int64(k)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Piped runs write and read at the two ends of a pipe. If write fails, its error is returned, as read only saw a
// broken stream then, unless the reason is that read had stopped.
func Piped(write func(io.Writer) error, read func(io.Reader) error) error {
	pr, pw := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := write(pw)
		pw.CloseWithError(err)
		wrote <- err
	}()
	err := read(pr)
	pr.CloseWithError(errReadEnded) // for a writer that still waits
	if werr := <-wrote; werr != nil && !errors.Is(werr, errReadEnded) {
		return werr
	}
	return err
}

var errReadEnded = errors.New("the stream's reader is closed")

// Kept is content in a temporary file.
type Kept struct {
	f *os.File
	HoleWriter
}

// NewKept begins an empty one.
func NewKept() (*Kept, error) {
	f, err := TempFile()
	return &Kept{f, HoleWriter{W: f, Room: Temp}}, err
}

// Keep keeps all of r.
func Keep(r io.Reader) (*Kept, error) {
	k, err := NewKept()
	if err != nil {
		return nil, err
	}
	if err = k.Copy(r); err == nil {
		err = k.f.Truncate(k.N)
	}
	if err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// keptShare is the part of Temp that blobs may use: a blob without room fails nothing, but reading
// fails without the rest.
const keptShare = 2

// Write appends a part of a blob. It errs without room; then the blob must be closed.
func (k *Kept) Write(p []byte) (int, error) {
	if (Temp.used.Load()+int64(len(p)))*keptShare > Temp.limit.Load() {
		return 0, io.ErrShortWrite
	}
	if err := k.take(len(p)); err != nil {
		return 0, err
	}
	n, err := k.W.WriteAt(p, k.N)
	k.N += int64(n)
	return n, err
}

// Open reads it from its beginning, not verified.
func (k *Kept) Open() io.ReadCloser { return io.NopCloser(io.NewSectionReader(k.f, 0, k.N)) }

// At reads it at any offset.
func (k *Kept) At() io.ReaderAt { return k.f }

// Close removes it. Whoever still reads it gets an error.
func (k *Kept) Close() {
	RemoveTemp(k.f)
	k.Room.give(k.taken)
	k.taken = 0
}

// How much the temporary files of a process may hold together: a layer of 2 MB can have files of
// 2 GB to look at.

// DefaultTempLimit is the limit of Temp, in bytes: the largest libraries known have 3 GB, and four
// layers are read at once.
const DefaultTempLimit = 8 << 30

// Temp is the room of this process's temporary files whose size depends on what a source
// unpacks to.
var Temp = NewRoom(DefaultTempLimit)

// Room is a number of bytes that several writers share. Its methods may be called from several
// goroutines at once.
type Room struct{ limit, used atomic.Int64 }

// NewRoom makes a room for limit bytes.
func NewRoom(limit int64) *Room {
	r := &Room{}
	r.SetLimit(limit)
	return r
}

// Limit is how many bytes there are.
func (r *Room) Limit() int64 { return r.limit.Load() }

// SetLimit changes how many bytes there are.
func (r *Room) SetLimit(limit int64) { r.limit.Store(limit) }

// take takes n bytes, or errs if they are not left.
func (r *Room) take(n int64) error {
	if r.used.Add(n) > r.limit.Load() {
		r.used.Add(-n)
		return hinterr.With(hinterr.Errorf(hinterr.ErrTooLarge, "temporary files: more than %d bytes", r.limit.Load()),
			"if you trust the source, allow more with --max-temp; TMPDIR selects the directory")
	}
	return nil
}

func (r *Room) give(n int64) { r.used.Add(-n) }
