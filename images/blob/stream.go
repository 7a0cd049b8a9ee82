// The tar stream of one layer, checked against its digest and diff ID while it is read.

package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// LayerStream is the tar stream of one layer. While it is read, the compressed bytes are
// checked against the digest and the decompressed ones against the diff ID.
type LayerStream struct {
	*hashRing        // what came out of the decompressor
	Name      string // for messages: the short diff ID
	src       io.ReadCloser
	body      io.ReadCloser
	Packed    *verifier // what was fetched, where nobody else verifies it
	DiffID    v1.Hash
	Size      int64 // claimed, of what was fetched; -1 where not known
	task      progress.Task
	cancel    context.CancelFunc
}

// LayerName is the name of a layer in messages, the same while it is read, written and pushed: that
// of its content or, if that is unknown, of the blob.
func LayerName(l v1.Layer, digest v1.Hash) string {
	if h, err := l.DiffID(); err == nil && h.Hex != "" {
		digest = h
	}
	return ShortHash(digest)
}

// OpenLayer starts to read a layer. The caller must Close it, and has read all of it only
// if Finish returned nil.
func OpenLayer(ctx context.Context, l v1.Layer, p progress.Reporter) (*LayerStream, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, fmt.Errorf("layer: diff ID: %w", err)
	}
	l = Underlying(l)
	s := &LayerStream{Name: ShortHash(diffID), DiffID: diffID}
	digest, err := l.Digest()
	var serr error
	if s.Size, serr = l.Size(); cmp.Or(err, serr) != nil {
		return nil, s.Wrap(cmp.Or(err, serr))
	}
	if s.src, err = OpenUnverified(l); err != nil { // hashed here, and once is enough
		return nil, s.Wrap(err)
	}
	s.task = progress.Start(p, "read", s.Name, s.Size)
	ctx, s.cancel = context.WithCancel(ctx)
	if digest == diffID { // it is not compressed, and its diff ID is compared
		s.body, _, err = Decompress(ctx, Reading{ctx, s.src, s.task})
	} else {
		s.body, err = s.decompress(ctx, digest)
	}
	if err != nil {
		err = s.Blame(err)
		s.Close()
		return nil, err
	}
	s.hashRing = newHashRing(s.body, diffID)
	return s, nil
}

// decompress verifies the blob while it is decompressed.
func (s *LayerStream) decompress(ctx context.Context, digest v1.Hash) (body io.ReadCloser, err error) {
	in := s.src.(io.Reader)
	file := wholeFile(s.src)
	if file != nil {
		in = io.NewSectionReader(file, 0, math.MaxInt64)
	}
	s.Packed, err = newVerifier(struct {
		io.Reader
		io.Closer
	}{Reading{ctx, in, s.task}, s.src}, digest, s.Size)
	if err != nil {
		return nil, err
	}
	body, _, err = decompress(ctx, s.Packed, file)
	return body, err
}

// wholeFile returns the regular file that r reads from its beginning, nil for anything else.
func wholeFile(r io.Reader) *os.File {
	f, ok := r.(*os.File)
	if !ok {
		return nil
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != 0 {
		return nil
	}
	return f
}

// Finish reads what is left and compares both hashes and the size with what was claimed.
func (s *LayerStream) Finish() error {
	if err := s.compare(); err != nil {
		return s.Blame(err)
	}
	if s.Packed == nil {
		return nil
	}
	// A decompressor may stop at the end of its last frame, before padding.
	return s.Wrap(s.Packed.drain())
}

// compare reads what is left of the content, and compares its hash.
func (s *LayerStream) compare() error {
	if err := s.hashRing.drain(); err != nil {
		return err
	}
	if got := s.hashRing.sum(); got != s.DiffID {
		return hinterr.Damaged("content does not match its diff ID: got %v, want %v", got, s.DiffID)
	}
	return nil
}

// maxBlamed is how many bytes of a blob are read to find out whether it is the requested one.
const maxBlamed = 256 << 20

// Blame names the layer in an error that its content caused. If the blob does not have its digest,
// that is the reason, and not the error of a decompressor or an archive's reader.
func (s *LayerStream) Blame(err error) error {
	check := s.compare
	switch {
	case err == nil || s.Size > maxBlamed:
		return s.Wrap(err)
	case s.Packed != nil:
		s.end() // it reads no more of Packed
		check = s.Packed.drain
	case s.hashRing == nil:
		return s.Wrap(err)
	}
	if reason := check(); reason != nil && !errors.Is(reason, context.Canceled) && !errors.Is(reason, context.DeadlineExceeded) {
		err = reason
	}
	return s.Wrap(err)
}

// Close ends everything that reads the layer. It may follow finish or replace it.
func (s *LayerStream) Close() error {
	// Everything that waits for input sees its end: a child is killed, a Read returns. Only
	// then are the goroutines waited for.
	s.cancel()
	err := s.src.Close()
	s.end()
	s.task.Done()
	return err
}

// end ends decompressing.
func (s *LayerStream) end() {
	if s.hashRing != nil && s.body != nil {
		s.hashRing.stop()
	}
	if s.body != nil {
		s.body.Close()
		s.body = nil
	}
}

// Wrap names the layer in an error.
func (s *LayerStream) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("layer %s: %w", s.Name, err)
}
