// Layers under another media type, and the layer inside such a wrapper.

package blob

import (
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// retyped is a layer under another media type.
type retyped struct {
	v1.Layer
	mediaType types.MediaType
}

// AsType is a layer under another media type.
func AsType(l v1.Layer, t types.MediaType) v1.Layer { return retyped{l, t} }

func (r retyped) MediaType() (types.MediaType, error) { return r.mediaType, nil }

// Unwrap gives the layer under its own media type.
func (r retyped) Unwrap() v1.Layer { return r.Layer }

// Underlying takes the wrappers off a layer that only give it another media type.
func Underlying(l v1.Layer) v1.Layer {
	for {
		w, ok := l.(interface{ Unwrap() v1.Layer })
		if !ok {
			return l
		}
		l = w.Unwrap()
	}
}

// unverifiedLayer is a layer that checks what it gives out, and can leave that to its reader.
type unverifiedLayer interface {
	// Unverified opens the blob for a caller that verifies it.
	Unverified() (io.ReadCloser, error)
}

// OpenUnverified opens a layer's blob for a caller that verifies it, so that it is not
// hashed twice.
func OpenUnverified(l v1.Layer) (io.ReadCloser, error) {
	l = Underlying(l)
	if u, ok := l.(unverifiedLayer); ok {
		return u.Unverified()
	}
	return l.Compressed()
}

// MaxNesting is how deep indexes in indexes are followed; nothing in use nests at all.
const MaxNesting = 4
