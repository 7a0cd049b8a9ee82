// The tar stream of one layer, checked against its digest and diff ID while it is read.

package blob

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/progress"
)

// LayerStream is the tar stream of one layer. While it is read, the compressed bytes are
// checked against the digest and the decompressed ones against the diff ID.
type LayerStream struct {
	*bufio.Reader
	Name   string // for messages: the short diff ID
	DiffID v1.Hash
	close  []func() error
}

// OpenLayer starts to read a layer. The caller must Close it, and has read all of it only
// if Finish returned nil.
func OpenLayer(ctx context.Context, l v1.Layer, p progress.Reporter) (*LayerStream, error) {
	diffID, err := l.DiffID()
	digest, derr := l.Digest()
	size, serr := l.Size()
	if err := cmp.Or(err, derr, serr); err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	s := &LayerStream{Name: ShortHash(diffID), DiffID: diffID}
	packed, err := l.Compressed()
	if err == nil {
		packed, err = Verified(packed, digest, size)
	}
	if err != nil {
		return nil, s.Wrap(err)
	}
	task := progress.Start(p, "read", s.Name, size)
	s.close = append(s.close, packed.Close, func() error { task.Done(); return nil })
	body, kind, err := Decompress(ctx, Reading{ctx, packed, task})
	if err == nil {
		s.close = append(s.close, body.Close)
		if kind != PlainStream || digest != diffID { // else it is verified already
			body, err = Verified(body, diffID, -1)
		}
	}
	if err != nil {
		s.Close()
		return nil, s.Wrap(err)
	}
	s.Reader = bufio.NewReaderSize(body, CopyBuffer)
	return s, nil
}

// Finish reads what is left: nil means that the layer is what its digest and its diff ID say.
func (s *LayerStream) Finish() error {
	_, err := CopyTo(context.Background(), io.Discard, s.Reader, nil)
	return s.Wrap(err)
}

// Close ends everything that reads the layer: its source first, for which a decompressor may wait.
func (s *LayerStream) Close() error {
	var first error
	for _, end := range s.close {
		first = cmp.Or(first, end())
	}
	return first
}

// Wrap names the layer in an error.
func (s *LayerStream) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("layer %s: %w", s.Name, err)
}
