package images

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Limits on what is held in memory, in bytes. distribution refuses manifests above 4 MiB
// (registry/handlers/manifests.go, maxManifestBodySize) and so does containerd; a config has
// no such limit anywhere, and the largest known are some hundred KiB.
const (
	maxManifest = 4 << 20
	maxConfig   = 16 << 20
)

// blobs is where content is found by its digest.
type blobs interface {
	// open gives the content of h and its length in bytes, not verified. The error is an
	// ErrNotFound where h is missing.
	open(h v1.Hash) (io.ReadCloser, int64, error)
}

// openBlob opens what a descriptor names. What it returns ends in an error instead of
// io.EOF where length or digest differ from the descriptor's.
func openBlob(b blobs, d v1.Descriptor) (io.ReadCloser, error) {
	rc, size, err := b.open(d.Digest)
	if err != nil {
		return nil, err
	}
	if size != d.Size {
		rc.Close()
		return nil, damaged("blob %v: got %d bytes, want %d", d.Digest, size, d.Size)
	}
	return verified(rc, d.Digest, d.Size)
}

// readBlob reads the whole of what a descriptor names, at most limit bytes; what says in an
// error what it is.
func readBlob(b blobs, d v1.Descriptor, what string, limit int64) ([]byte, error) {
	if d.Size < 0 || d.Size > limit {
		return nil, damaged("%s %v: %d bytes, want at most %d", what, d.Digest, d.Size, limit)
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

// verified wraps rc so that reading to its end proves digest and, where size >= 0, length.
// Not one byte beyond size is handed on.
func verified(rc io.ReadCloser, h v1.Hash, size int64) (io.ReadCloser, error) {
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
		v.err = damaged("blob %v: more than %d bytes", v.want, v.size)
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
		return damaged("blob %v: got %d bytes, want %d", v.want, v.got, v.size)
	}
	if got := hex.EncodeToString(v.sum.Sum(nil)); got != v.want.Hex {
		return damaged("blob %v: got %s:%s of its %d bytes", v.want, v.want.Algorithm, got, v.got)
	}
	return io.EOF
}

// memBlobs are contents in memory before what another place has.
type memBlobs struct {
	data map[v1.Hash][]byte
	next blobs
}

func (m memBlobs) open(h v1.Hash) (io.ReadCloser, int64, error) {
	if d, ok := m.data[h]; ok {
		return io.NopCloser(bytes.NewReader(d)), int64(len(d)), nil
	}
	return m.next.open(h)
}

// reading is an io.Reader that ends with the context's error and tells a Task how far it
// got; t may be nil.
type reading struct {
	ctx context.Context
	io.Reader
	t Task
}

func (r reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(p)
	if r.t != nil {
		r.t.Add(int64(n))
	}
	return n, err
}

// copyBuffer is how much is copied between two looks at the context, in bytes.
const copyBuffer = 256 << 10

// copyTo copies r to w until its end, the context's end or an error.
func copyTo(ctx context.Context, w io.Writer, r io.Reader, t Task) (int64, error) {
	// Struct literals without ReadFrom and WriteTo, or io.Copy would go around reading.
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{reading{ctx, r, t}}, make([]byte, copyBuffer))
}

// silent is what a nil Progress is replaced with.
type silent struct{}

func (silent) Start(string, string, int64) Task { return silent{} }
func (silent) Note(string, ...any)              {}
func (silent) Add(int64)                        {}
func (silent) Done()                            {}
