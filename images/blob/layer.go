// Layers under another media type, and layers that are made here.

package blob

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// retyped is a layer under another media type.
type retyped struct {
	v1.Layer
	mediaType types.MediaType
}

// AsType is a layer under another media type.
func AsType(l v1.Layer, t types.MediaType) v1.Layer {
	if m, ok := l.(*remote.MountableLayer); ok {
		return &remote.MountableLayer{Layer: retyped{m.Layer, t}, Reference: m.Reference}
	}
	return retyped{l, t}
}

func (r retyped) MediaType() (types.MediaType, error) { return r.mediaType, nil }

// PackedLayer is a gzip stream in a temporary file. It implements v1.Layer, and can be read until Close.
type PackedLayer struct {
	PackedSize                int64 // compressed bytes
	PackedDigest, PlainDigest v1.Hash
	f                         *os.File
}

func (l *PackedLayer) Digest() (v1.Hash, error)            { return l.PackedDigest, nil }
func (l *PackedLayer) DiffID() (v1.Hash, error)            { return l.PlainDigest, nil }
func (l *PackedLayer) Size() (int64, error)                { return l.PackedSize, nil }
func (l *PackedLayer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }
func (l *PackedLayer) Close()                              { l.f.Close() }

// Compressed returns the gzip stream.
func (l *PackedLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(l.f, 0, l.PackedSize)), nil
}

// Uncompressed returns the tar stream.
func (l *PackedLayer) Uncompressed() (io.ReadCloser, error) {
	return gzip.NewReader(io.NewSectionReader(l.f, 0, l.PackedSize))
}

// PackLayer makes a layer of the tar stream that write writes. The same stream and level give the same bytes: the gzip
// header has neither a name nor a time.
func PackLayer(level int, write func(io.Writer) error) (*PackedLayer, error) {
	f, err := TempFile()
	if err != nil {
		return nil, err
	}
	packed, plain := sha256.New(), sha256.New()
	zw, err := gzip.NewWriterLevel(io.MultiWriter(f, packed), level)
	if err == nil {
		err = write(io.MultiWriter(zw, plain))
	}
	if err == nil {
		err = zw.Close()
	}
	size, serr := f.Seek(0, io.SeekCurrent)
	if err := cmp.Or(err, serr); err != nil {
		f.Close()
		return nil, err
	}
	return &PackedLayer{size, Sum(packed), Sum(plain), f}, nil
}

// Sum is what a SHA-256 hash makes of the bytes that it got.
func Sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}
