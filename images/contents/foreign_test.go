package contents_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/internal/imagetest"
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
	inner := imagetest.Must[[]v1.Layer](t)(imagetest.TinyImage(t).Layers())[0]
	for mt, wantAsked := range map[types.MediaType]bool{
		types.DockerForeignLayer: false, types.OCIRestrictedLayer: false, types.DockerLayer: true,
	} {
		n := &imagetest.Notes{}
		s := contents.NewSession(1, n, rewriter.Options{})
		l := &farLayer{Layer: inner, mediaType: mt}
		idx, err := s.ReadLayer(t.Context(), l)
		s.Close()
		if l.asked != wantAsked || (err != nil) != wantAsked {
			t.Errorf("%s: asked %v, error %v", mt, l.asked, err)
		}
		if !wantAsked && (len(idx.Entries) != 0 || !strings.Contains(strings.Join(n.Text, ""), "not examined")) {
			t.Errorf("%s: got %+v, notes %q", mt, idx, n.Text)
		}
	}
}
