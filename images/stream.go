package images

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"reflect"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// layerStream is the tar stream of one layer. While it is read, the compressed bytes are
// checked against the digest and the decompressed ones against the diff ID.
type layerStream struct {
	*bufio.Reader
	name   string // for messages: the short diff ID
	src    io.ReadCloser
	body   io.ReadCloser
	packed *hashReader // what was fetched
	raw    *hashReader // what came out of the decompressor
	diffID v1.Hash
	digest v1.Hash // zero for a layer that came uncompressed
	size   int64   // claimed, of what was fetched; -1 where not known
	task   Task
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
	if isPlain(l) {
		s.src, err = l.Uncompressed()
	} else {
		if s.digest, err = l.Digest(); err != nil {
			return nil, s.wrap(err)
		}
		if s.size, err = l.Size(); err != nil {
			return nil, s.wrap(err)
		}
		s.src, err = l.Compressed()
	}
	if err != nil {
		return nil, s.wrap(err)
	}
	s.task = startTask(p, "read", s.name, s.size)
	var in io.Reader = reading{ctx, s.src, s.task}
	if s.digest != (v1.Hash{}) && s.digest != diffID {
		s.packed = newHashReader(in)
		in = s.packed
	}
	if s.body, _, err = decompress(ctx, in); err != nil {
		s.Close()
		return nil, s.wrap(err)
	}
	s.raw = newHashReader(s.body)
	s.Reader = bufio.NewReaderSize(s.raw, copyBuffer)
	return s, nil
}

// finish reads what is left and compares both hashes and the size with what was claimed.
func (s *layerStream) finish() error {
	if _, err := s.Reader.WriteTo(io.Discard); err != nil {
		return s.wrap(err)
	}
	if got := s.raw.sum(); got != s.diffID {
		return s.wrap(damaged("content does not match its diff ID: got %v, want %v", got, s.diffID))
	}
	if s.packed == nil {
		return nil
	}
	// A decompressor may stop at the end of its last frame, before padding.
	if _, err := io.Copy(io.Discard, s.packed); err != nil {
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
	// The source first: a decompressor that waits for input must see the end of it.
	err := s.src.Close()
	if s.body != nil {
		s.body.Close()
	}
	if s.raw != nil {
		s.raw.stop()
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

// hashReader passes on what it reads and hashes it in a goroutine of its own, so that
// hashing and decompressing share two processors.
type hashReader struct {
	r       io.Reader
	n       int64
	buf     []byte // being filled
	work    chan []byte
	free    chan []byte
	done    chan struct{}
	h       hash.Hash
	stopped bool
}

// hashBuffers is how many buffers travel between reader and hasher: one being filled, one
// being hashed, one waiting.
const hashBuffers = 3

func newHashReader(r io.Reader) *hashReader {
	h := &hashReader{
		r: r, h: sha256.New(), done: make(chan struct{}),
		work: make(chan []byte, hashBuffers), free: make(chan []byte, hashBuffers),
	}
	for range hashBuffers - 1 {
		h.free <- make([]byte, 0, copyBuffer)
	}
	h.buf = make([]byte, 0, copyBuffer)
	go func() {
		defer close(h.done)
		for b := range h.work {
			h.h.Write(b)
			h.free <- b[:0]
		}
	}()
	return h
}

func (h *hashReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.n += int64(n)
	for p = p[:n]; len(p) > 0 && !h.stopped; {
		k := min(cap(h.buf)-len(h.buf), len(p))
		h.buf = append(h.buf, p[:k]...)
		p = p[k:]
		if len(h.buf) == cap(h.buf) {
			h.work <- h.buf
			h.buf = <-h.free
		}
	}
	return n, err
}

// stop ends the goroutine; what was read is hashed.
func (h *hashReader) stop() {
	if !h.stopped {
		h.stopped = true
		h.work <- h.buf
		close(h.work)
		<-h.done
	}
}

// sum returns the SHA-256 of all that was read.
func (h *hashReader) sum() v1.Hash {
	h.stop()
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.h.Sum(nil))}
}
