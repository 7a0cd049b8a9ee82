package images

import (
	"errors"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/rewriter"
)

// farLayer is a layer of a registry that must not be asked for.
type farLayer struct {
	v1.Layer
	mediaType types.MediaType
	asked     bool
}

func (l *farLayer) MediaType() (types.MediaType, error) { return l.mediaType, nil }
func (l *farLayer) Compressed() (io.ReadCloser, error) {
	l.asked = true
	return nil, errors.New("asked for")
}

// A foreign layer of a registry is passed over unread; any other is read.
func TestForeignLayer(t *testing.T) {
	inner := must[[]v1.Layer](t)(tinyImage(t).Layers())[0]
	for mt, wantAsked := range map[types.MediaType]bool{
		types.DockerForeignLayer: false, types.OCIRestrictedLayer: false, types.DockerLayer: true,
	} {
		n := &notes{}
		s := newSession(1, n, rewriter.Options{})
		l := &farLayer{Layer: inner, mediaType: mt}
		idx, err := s.readLayer(t.Context(), l)
		s.Close()
		if l.asked != wantAsked || (err != nil) != wantAsked {
			t.Errorf("%s: asked %v, error %v", mt, l.asked, err)
		}
		if !wantAsked && (len(idx.entries) != 0 || !strings.Contains(strings.Join(n.text, ""), "not examined")) {
			t.Errorf("%s: got %+v, notes %q", mt, idx, n.text)
		}
	}
}
