// Content found by its digest: opened, read, copied, and verified while it is read.

package blob

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// Limits on what is held in memory, in bytes. distribution refuses manifests above 4 MiB
// (registry/handlers/manifests.go, maxManifestBodySize) and so does containerd; a config has
// no such limit anywhere, and the largest known are some hundred KiB.
const (
	MaxManifest = 4 << 20
	MaxConfig   = 16 << 20
)

// Blobs is where content is found by its digest.
type Blobs interface {
	// Open gives the content that a descriptor names, by its digest, and its length in bytes, neither of them
	// verified. The error is an ErrNotFound if it is missing. A length below 0 means unknown, here and in the descriptor.
	Open(d v1.Descriptor) (io.ReadCloser, int64, error)
}

// openBlob opens what a descriptor names. Its result ends in an error instead of
// io.EOF where length or digest differ from the descriptor's.
func openBlob(b Blobs, d v1.Descriptor) (io.ReadCloser, error) {
	rc, err := openSized(b, d)
	if err != nil {
		return nil, err
	}
	return Verified(rc, d.Digest, d.Size)
}

// openSized opens what a descriptor names, if its length is the descriptor's or unknown; its digest is not verified.
func openSized(b Blobs, d v1.Descriptor) (io.ReadCloser, error) {
	rc, size, err := b.Open(d)
	if err != nil {
		return nil, err
	}
	if size >= 0 && size != d.Size {
		rc.Close()
		return nil, hinterr.Damaged("blob %v: got %d bytes, want %d", d.Digest, size, d.Size)
	}
	return rc, nil
}

// ReadBlob reads all that a descriptor names, at most limit bytes; what is its name in
// errors.
func ReadBlob(b Blobs, d v1.Descriptor, what string, limit int64) ([]byte, error) {
	if d.Size < 0 || d.Size > limit {
		return nil, hinterr.Damaged("%s %v: got %d bytes, want at most %d", what, d.Digest, d.Size, limit)
	}
	rc, err := openBlob(b, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return data, nil
}

// Verified wraps rc so that reading to its end proves digest and, where size >= 0, length.
// Not one byte beyond size is handed on.
func Verified(rc io.ReadCloser, h v1.Hash, size int64) (io.ReadCloser, error) {
	return newVerifier(rc, h, size)
}

func newVerifier(rc io.ReadCloser, h v1.Hash, size int64) (*verifier, error) {
	sum, err := v1.Hasher(h.Algorithm)
	if err != nil {
		rc.Close()
		return nil, fmt.Errorf("blob %v: %w", h, err)
	}
	return &verifier{ReadCloser: rc, sum: sum, want: h, size: size}, nil
}

type verifier struct {
	io.ReadCloser
	sum  hash.Hash
	want v1.Hash
	size int64 // < 0: not known
	got  int64
	err  error
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.ReadCloser.Read(p)
	v.got += int64(n)
	if v.size >= 0 && v.got > v.size {
		n -= int(v.got - v.size)
		v.sum.Write(p[:n])
		v.err = hinterr.Damaged("blob %v: more than %d bytes", v.want, v.size)
		return n, v.err
	}
	v.sum.Write(p[:n])
	if err == io.EOF {
		err = v.end()
	}
	v.err = err
	return n, err
}

// end judges what was read.
func (v *verifier) end() error {
	if v.size >= 0 && v.got != v.size {
		return hinterr.Damaged("blob %v: got %d bytes, want %d", v.want, v.got, v.size)
	}
	if got := hex.EncodeToString(v.sum.Sum(nil)); got != v.want.Hex {
		return hinterr.Damaged("blob %v: content does not match its digest: got %s:%s of its %d bytes", v.want, v.want.Algorithm, got, v.got)
	}
	return io.EOF
}

// drain reads the rest; nil means that the whole content matches the descriptor.
func (v *verifier) drain() error {
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, v, make([]byte, CopyBuffer))
	return err
}

// MemBlobs are contents in memory, looked up before those of another place.
type MemBlobs struct {
	Data map[v1.Hash][]byte
	Next Blobs
}

// Open returns a content and its size in bytes.
func (m MemBlobs) Open(d v1.Descriptor) (io.ReadCloser, int64, error) {
	if data, ok := m.Data[d.Digest]; ok {
		return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
	}
	return m.Next.Open(d)
}

// Origin is the place of the blobs that are not in memory.
func Origin(b Blobs) Blobs {
	if m, ok := b.(MemBlobs); ok {
		return m.Next
	}
	return b
}

// Reading is an io.Reader that ends with the context's error and reports to a Task how far it
// got; t may be nil.
type Reading struct {
	Ctx context.Context
	io.Reader
	T progress.Task
}

func (r Reading) Read(p []byte) (int, error) {
	if err := r.Ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(p)
	if r.T != nil {
		r.T.Add(int64(n))
	}
	return n, err
}

// CopyBuffer is how much is copied between two looks at the context, in bytes.
const CopyBuffer = 256 << 10

// CopyTo copies r to w until its end, the context's end or an error.
func CopyTo(ctx context.Context, w io.Writer, r io.Reader, t progress.Task) (int64, error) {
	// Struct literals without ReadFrom and WriteTo, or io.Copy would go around reading.
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{Reading{ctx, r, t}}, make([]byte, CopyBuffer))
}

// OpenRegular opens a regular file, or a symlink to one, and nothing else: opening a FIFO
// would wait for ever.
func OpenRegular(path string) (*os.File, int64, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, hinterr.Damaged("%s: not a regular file but %s", path, fi.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

// ReadSmall reads a regular file of at most limit bytes.
func ReadSmall(path string, limit int64) ([]byte, error) {
	f, size, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, hinterr.Damaged("%s: %d bytes, want at most %d", path, size, limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// CountingReader counts the bytes read and keeps the error that ended reading.
type CountingReader struct {
	R   io.Reader
	N   int64
	Err error // not io.EOF
}

func (c *CountingReader) Read(p []byte) (int, error) {
	n, err := c.R.Read(p)
	c.N += int64(n)
	if err != nil && err != io.EOF {
		c.Err = err
	}
	return n, err
}

// blame attributes err to the content read, unless reading it failed.
func (c *CountingReader) blame(err error) error {
	if c.Err != nil {
		return err
	}
	return hinterr.Damaged("%w", err)
}
