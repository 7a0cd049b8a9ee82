// A layer that is made here: a tar stream, compressed into a temporary file.

package blob

import (
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// PackedLayer is a gzip stream in a temporary file. It implements v1.Layer, and can be read until Close.
type PackedLayer struct {
	f                         *os.File
	PackedSize                int64 // compressed bytes
	PackedDigest, PlainDigest v1.Hash
}

func (l *PackedLayer) Digest() (v1.Hash, error)             { return l.PackedDigest, nil }
func (l *PackedLayer) DiffID() (v1.Hash, error)             { return l.PlainDigest, nil }
func (l *PackedLayer) Size() (int64, error)                 { return l.PackedSize, nil }
func (l *PackedLayer) MediaType() (types.MediaType, error)  { return types.OCILayer, nil }
func (l *PackedLayer) Compressed() (io.ReadCloser, error)   { return io.NopCloser(l.Reader()), nil }
func (l *PackedLayer) Uncompressed() (io.ReadCloser, error) { return gzip.NewReader(l.Reader()) }
func (l *PackedLayer) Close()                               { RemoveTemp(l.f) }
func (l *PackedLayer) Reader() io.Reader                    { return io.NewSectionReader(l.f, 0, l.PackedSize) }

// PackLayer makes a layer of the tar stream that write writes. The same stream and level give the same bytes: the gzip
// header has neither a name nor a time.
func PackLayer(level int, write func(io.Writer) error) (_ *PackedLayer, err error) {
	l := &PackedLayer{}
	if l.f, err = TempFile(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	packed, plain := NewSum(), NewSum()
	zw, err := gzip.NewWriterLevel(io.MultiWriter(l.f, packed), level)
	if err != nil {
		return nil, err
	}
	if err := write(io.MultiWriter(zw, plain)); err != nil {
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	l.PackedSize, l.PackedDigest, l.PlainDigest = packed.n, Sha256Hash(packed.h), Sha256Hash(plain.h)
	return l, nil
}
