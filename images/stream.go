package images

import (
	"context"
	"fmt"
	"io"
	"reflect"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// layerStream is the tar stream of one layer. While it is read, the compressed bytes are
// checked against the digest and the decompressed ones against the diff ID.
type layerStream struct {
	*hashRing        // what came out of the decompressor
	name      string // for messages: the short diff ID
	src       io.ReadCloser
	body      io.ReadCloser
	packed    *hashRing // what was fetched, where nobody else verifies it
	diffID    v1.Hash
	digest    v1.Hash // zero for a layer that came uncompressed
	size      int64   // claimed, of what was fetched; -1 where not known
	task      Task
	cancel    context.CancelFunc
}

// shortHash is a hash as messages write it: the algorithm and twelve digits, as docker does.
func shortHash(h v1.Hash) string {
	const digits = 12
	if len(h.Hex) > digits {
		h.Hex = h.Hex[:digits]
	}
	return h.String()
}

// isPlain reports whether the layer's own bytes are the uncompressed ones, and Digest,
// Size and Compressed would each compress the whole layer first. ggcr does not say so:
// partial.UncompressedToLayer wraps the layer in a struct that embeds the interface.
func isPlain(l v1.Layer) bool {
	if p, ok := l.(interface{ Plain() bool }); ok {
		return p.Plain()
	}
	v := reflect.Indirect(reflect.ValueOf(l))
	return v.Kind() == reflect.Struct && v.FieldByName("UncompressedLayer").IsValid()
}

// openLayer starts to read a layer. The caller must Close it, and reads the whole of it
// only where finish returned nil.
func openLayer(ctx context.Context, l v1.Layer, p Progress) (*layerStream, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, fmt.Errorf("layer: diff ID: %w", err)
	}
	s := &layerStream{name: shortHash(diffID), diffID: diffID, size: -1}
	_, verifies := l.(*storedLayer)
	if isPlain(l) {
		s.src, err = l.Uncompressed()
	} else {
		if s.digest, err = l.Digest(); err != nil {
			return nil, s.wrap(err)
		}
		if s.size, err = l.Size(); err != nil {
			return nil, s.wrap(err)
		}
		if u, ok := l.(unverifiedLayer); ok && !verifies { // hashed here, and once is enough
			s.src, err = u.Unverified()
		} else {
			s.src, err = l.Compressed()
		}
	}
	if err != nil {
		return nil, s.wrap(err)
	}
	s.task = startTask(p, "read", s.name, s.size)
	ctx, s.cancel = context.WithCancel(ctx)
	var in io.Reader = reading{ctx, s.src, s.task}
	if !verifies && s.digest != (v1.Hash{}) && s.digest != diffID {
		s.packed = newHashRing(in)
		in = s.packed
	}
	if s.body, _, err = decompress(ctx, in); err != nil {
		s.Close()
		return nil, s.wrap(err)
	}
	s.hashRing = newHashRing(s.body)
	return s, nil
}

// finish reads what is left and compares both hashes and the size with what was claimed.
func (s *layerStream) finish() error {
	if err := s.hashRing.drain(); err != nil {
		return s.wrap(err)
	}
	if got := s.hashRing.sum(); got != s.diffID {
		return s.wrap(damaged("content does not match its diff ID: got %v, want %v", got, s.diffID))
	}
	if s.packed == nil {
		return nil
	}
	// A decompressor may stop at the end of its last frame, before padding.
	if err := s.packed.drain(); err != nil {
		return s.wrap(err)
	}
	if s.size >= 0 && s.packed.n != s.size {
		return s.wrap(damaged("compressed size: got %d bytes, want %d", s.packed.n, s.size))
	}
	if got := s.packed.sum(); got != s.digest {
		return s.wrap(damaged("content does not match its digest: got %v, want %v", got, s.digest))
	}
	return nil
}

// Close ends everything that reads the layer. It may follow finish or replace it.
func (s *layerStream) Close() error {
	// Whoever waits for input sees the end of it: a child is killed, a Read returns. Only
	// then are the goroutines waited for.
	s.cancel()
	err := s.src.Close()
	if s.hashRing != nil {
		s.hashRing.stop()
	}
	if s.body != nil {
		s.body.Close()
	}
	if s.packed != nil {
		s.packed.stop()
	}
	s.task.Done()
	return err
}

// wrap names the layer in an error.
func (s *layerStream) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("layer %s: %w", s.name, err)
}
