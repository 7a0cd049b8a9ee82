// Layers: blobs of an image, layers under another media type, and the layer inside such a wrapper.

package blob

import (
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// StoredLayer is a layer that is a blob. It implements v1.Layer.
type StoredLayer struct {
	from    Blobs
	desc    v1.Descriptor
	diffIDs func() ([]v1.Hash, error) // of all layers of the image
	n       int                       // of this layer, the base layer being 0
}

func (l *StoredLayer) Digest() (v1.Hash, error)            { return l.desc.Digest, nil }
func (l *StoredLayer) Size() (int64, error)                { return l.desc.Size, nil }
func (l *StoredLayer) MediaType() (types.MediaType, error) { return l.desc.MediaType, nil }
func (l *StoredLayer) Compressed() (io.ReadCloser, error)  { return openBlob(l.from, l.desc) }

func (l *StoredLayer) DiffID() (v1.Hash, error) {
	ids, err := l.diffIDs()
	if err != nil {
		return v1.Hash{}, err
	}
	return ids[l.n], nil
}

// Uncompressed returns a stream that ends in an error if the content does not have the diff ID.
func (l *StoredLayer) Uncompressed() (io.ReadCloser, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, err
	}
	rc, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	out, _, err := Decompress(context.Background(), rc)
	if err != nil {
		rc.Close()
		return nil, fmt.Errorf("layer %v: %w", l.desc.Digest, err)
	}
	return Verified(stacked{out, rc}, diffID, -1)
}

// From is the place of a layer's blob, nil if unknown.
func From(l v1.Layer) Blobs {
	if stored, ok := Underlying(l).(*StoredLayer); ok {
		return Origin(stored.from)
	}
	return nil
}

// stacked is a stream made from another one; closing it closes both.
type stacked struct {
	io.ReadCloser
	under io.Closer
}

func (s stacked) Close() error {
	s.ReadCloser.Close()
	return s.under.Close()
}

// retyped is a layer under another media type.
type retyped struct {
	v1.Layer
	mediaType types.MediaType
}

// AsType is a layer under another media type.
func AsType(l v1.Layer, t types.MediaType) v1.Layer { return retyped{l, t} }

func (r retyped) MediaType() (types.MediaType, error) { return r.mediaType, nil }

// Underlying removes from a layer the wrappers that only change its media type.
func Underlying(l v1.Layer) v1.Layer {
	for {
		w, ok := l.(retyped)
		if !ok {
			return l
		}
		l = w.Layer
	}
}

// OpenUnverified opens a layer's blob for a caller that verifies it, so that it is not
// hashed twice.
func OpenUnverified(l v1.Layer) (io.ReadCloser, error) {
	l = Underlying(l)
	if stored, ok := l.(*StoredLayer); ok {
		return openSized(stored.from, stored.desc)
	}
	if u, ok := l.(interface{ Unverified() (io.ReadCloser, error) }); ok {
		return u.Unverified()
	}
	return l.Compressed()
}
