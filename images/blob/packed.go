// A layer that is made here: a tar stream, compressed into a temporary file.

package blob

import (
	"fmt"
	"io"
	"os"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// Packed identifies a gzip stream and the tar stream in it.
type Packed struct {
	PackedSize                int64 // compressed bytes
	PackedDigest, PlainDigest v1.Hash
}

// PackedLayer is a gzip stream in a temporary file. It implements v1.Layer, and can be read until Close.
type PackedLayer struct {
	Packed
	f    *os.File     // nil if only Packed is known, until somebody reads the layer
	fill func() error // sets f
}

func (l *PackedLayer) Digest() (v1.Hash, error)            { return l.PackedDigest, nil }
func (l *PackedLayer) DiffID() (v1.Hash, error)            { return l.PlainDigest, nil }
func (l *PackedLayer) Size() (int64, error)                { return l.PackedSize, nil }
func (l *PackedLayer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }
func (l *PackedLayer) Close()                              { RemoveTemp(l.f) }

// Compressed returns the gzip stream.
func (l *PackedLayer) Compressed() (io.ReadCloser, error) {
	if err := l.fill(); err != nil {
		return nil, err
	}
	return io.NopCloser(io.NewSectionReader(l.f, 0, l.PackedSize)), nil
}

// Uncompressed returns the tar stream.
func (l *PackedLayer) Uncompressed() (io.ReadCloser, error) {
	r, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	return gzip.NewReader(r)
}

// PackLayer makes a layer of the tar stream that write writes. The same stream and level give the same bytes: the gzip
// header has neither a name nor a time.
func PackLayer(level int, write func(io.Writer) error) (_ *PackedLayer, err error) {
	l := &PackedLayer{fill: func() error { return nil }}
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
	l.Packed = Packed{packed.n, Sha256Hash(packed.h), Sha256Hash(plain.h)}
	return l, nil
}

// Packer makes layers and remembers their digests. A tar stream that it has packed before is packed again only if
// somebody reads the layer: many images of a list get the same layer, and a registry gets it once.
type Packer struct {
	mu    sync.Mutex
	known map[v1.Hash]Packed // by PlainDigest
}

// Layer is PackLayer. It may call write more than once, also later, when the layer is read.
func (p *Packer) Layer(level int, write func(io.Writer) error) (*PackedLayer, error) {
	if k, err := p.find(write); err != nil || k != (Packed{}) {
		l := &PackedLayer{Packed: k}
		l.fill = sync.OnceValue(func() error {
			again, err := PackLayer(level, write)
			if err != nil {
				return err
			}
			if l.f = again.f; again.Packed != k {
				return fmt.Errorf("layer %v became %v when it was packed again", k.PackedDigest, again.PackedDigest)
			}
			return nil
		})
		return l, err
	}
	l, err := PackLayer(level, write)
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.known == nil {
			p.known = map[v1.Hash]Packed{}
		}
		p.known[l.PlainDigest] = l.Packed
	}
	return l, err
}

// find returns what a tar stream becomes, the zero value if it is not known.
func (p *Packer) find(write func(io.Writer) error) (k Packed, err error) {
	p.mu.Lock()
	first := len(p.known) == 0
	p.mu.Unlock()
	if first { // perhaps the only one
		return k, nil
	}
	plain := NewSum()
	if err = write(plain); err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		k = p.known[Sha256Hash(plain.h)]
	}
	return k, err
}
