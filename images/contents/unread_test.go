package contents_test

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// absent is a layer that its registry does not have.
type absent struct{ v1.Layer }

func (absent) Compressed() (io.ReadCloser, error) {
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "no such blob")
}

// A layer that is not a tar stream is an error that names it, with its media type if vfix does not read such.
func TestUnreadLayers(t *testing.T) {
	const encrypted = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted"
	archive := imagetest.TarMembers(t, imagetest.LegacyM("a", "1"))
	for name, c := range map[string]struct {
		content   []byte
		mediaType types.MediaType
		kind      error // nil for none
		want      string
	}{
		"an archive":    {archive, types.OCILayer, nil, ""},
		"a type of old": {archive, "application/octet-stream", nil, ""},
		"foreign":       {archive, types.DockerForeignLayer, nil, ""},
		"encrypted":     {imagetest.Noise(2000), encrypted, hinterr.ErrUnsupported, "media type " + encrypted + ", which vfix does not read"},
		"damaged":       {imagetest.Noise(2000), types.OCILayer, hinterr.ErrDamaged, "not a tar archive"},
		"docker's zstd": {imagetest.Noise(2000), "application/vnd.docker.image.rootfs.diff.tar.zstd", hinterr.ErrDamaged, "not a tar archive"},
	} {
		layer := blob.AsType(imagetest.BytesLayer(t, c.content), c.mediaType)
		if name == "encrypted" { // the diff ID is of what it was before
			digest, size := imagetest.Must[v1.Hash](t)(layer.Digest()), imagetest.Must[int64](t)(layer.Size())
			layer = lyingLayer{layer, digest, imagetest.Must[v1.Hash](t)(imagetest.BytesLayer(t, archive).DiffID()), size}
		}
		f, _, err := imagetest.ScanImage(t, imagetest.ImageOf(t, layer))
		id := imagetest.Must[v1.Hash](t)(layer.DiffID())
		switch {
		case c.kind == nil && (err != nil || f.Verdict() != contents.Affected):
			t.Errorf("%s: got %+v, %v", name, f, err)
		case c.kind != nil && (!errors.Is(err, c.kind) || !strings.Contains(err.Error(), "layer "+blob.ShortHash(id)+": "+c.want)):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// cut is a layer whose connection breaks.
type cut struct{ v1.Layer }

func (c cut) Compressed() (io.ReadCloser, error) {
	rc, err := c.Layer.Compressed()
	return io.NopCloser(io.MultiReader(io.LimitReader(rc, 100), iotest.ErrReader(syscall.ECONNRESET))), err
}

// A layer that cannot be fetched is not said to have a media type that vfix does not read.
func TestUnreadLayerOfAnyType(t *testing.T) {
	layer := blob.AsType(cut{imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("a", "1")))}, "application/octet-stream")
	if _, _, err := imagetest.ScanImage(t, imagetest.ImageOf(t, layer)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v", err)
	}
}

// A layer that one image of a list lacks is read for the next image that has it.
func TestUnreadLayerOfAnotherImage(t *testing.T) {
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("old", "1")})
	layer := imagetest.Must[[]v1.Layer](t)(img.Layers())[0]
	s := imagetest.TestSession(t)
	if _, err := s.Image(t.Context(), imagetest.ImageOf(t, absent{layer})); !errors.Is(err, hinterr.ErrNotFound) {
		t.Errorf("an absent layer: got %v", err)
	}
	if tree := imagetest.Must[*contents.Tree](t)(s.Image(t.Context(), img)); tree.Findings().Verdict() != contents.Affected {
		t.Errorf("got %v", tree.Findings().Verdict())
	}
}
