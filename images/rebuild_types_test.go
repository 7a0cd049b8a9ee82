package images_test

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/tests/imagetest"
)

// packedLayer is a layer whose bytes are packed in another way.
type packedLayer struct {
	v1.Layer
	packed v1.Layer
}

func (l packedLayer) Digest() (v1.Hash, error)            { return l.packed.Digest() }
func (l packedLayer) Size() (int64, error)                { return l.packed.Size() }
func (l packedLayer) MediaType() (types.MediaType, error) { return l.packed.MediaType() }
func (l packedLayer) Compressed() (io.ReadCloser, error)  { return l.packed.Compressed() }

// TestDockerTypesInOCI: an OCI manifest with layers of docker's types, which umoci and skopeo
// refuse. The result has OCI's names for them, and the same bytes.
func TestDockerTypesInOCI(t *testing.T) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	var want, digests []string
	for _, l := range []struct {
		is, becomes types.MediaType
		pack        func([]byte) []byte
	}{
		{"application/vnd.docker.image.rootfs.diff.tar.zstd", types.OCILayerZStd, func(b []byte) []byte { return imagetest.ZstdOf(t, b) }},
		{types.DockerUncompressedLayer, types.OCIUncompressedLayer, bytes.Clone},
		{types.DockerLayer, types.OCILayer, func(b []byte) []byte { return imagetest.GzipOf(t, b) }},
		{"", types.OCILayer, nil},
	} {
		want = append(want, string(l.becomes))
		if l.pack == nil {
			continue // the added one
		}
		plain := imagetest.TarMembers(t, imagetest.LegacyM("lib/"+string(l.becomes[len(l.becomes)-4:]), "1"))
		img = imagetest.Must[v1.Image](t)(mutate.Append(img, mutate.Addendum{
			Layer: packedLayer{imagetest.BytesLayer(t, plain), static.NewLayer(l.pack(plain), l.is)}, MediaType: l.is,
		}))
	}
	cf := imagetest.Must[*v1.ConfigFile](t)(img.ConfigFile()).DeepCopy()
	cf.OS, cf.Architecture = "linux", "amd64"
	img = imagetest.Must[v1.Image](t)(mutate.ConfigFile(img, cf))
	for _, l := range imagetest.Must[*v1.Manifest](t)(img.Manifest()).Layers {
		digests = append(digests, l.Digest.String())
	}
	dir := filepath.Join(t.TempDir(), "base") // not as vfix would write it
	p := imagetest.Must[layout.Path](t)(layout.Write(dir, empty.Index))
	if err := p.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	base := "oci:" + dir
	dest := "oci:" + t.TempDir() + "/out:x"
	rebuildTo(t, base, dest)
	var got, kept []string
	for _, l := range imagetest.Must[*v1.Manifest](t)(imagetest.Open(t, dest).Image.Manifest()).Layers {
		got, kept = append(got, string(l.MediaType)), append(kept, l.Digest.String())
	}
	if !slices.Equal(got, want) || !slices.Equal(kept[:len(digests)], digests) {
		t.Errorf("got types %q of layers %q, want %q of %q", got, kept, want, digests)
	}
	if f, err := images.Scan(context.Background(), dest, images.ScanOptions{}); err != nil || len(f.Files) != 0 {
		t.Errorf("the result: got %+v, %v", f, err)
	}
	imagetest.WantProblems(t, imagetest.Verify(t, dest, base))
}

// The layers of an archive that has no manifest are compressed, with the one that is added.
func TestLayersOfArchive(t *testing.T) {
	archive := imagetest.Write(t, t.TempDir()+"/saved.tar", imagetest.DockerSave(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")}), "base:1"))
	dest := "oci:" + t.TempDir() + "/out:x"
	rebuildTo(t, "docker-archive:"+archive, dest)
	layers := imagetest.Must[*v1.Manifest](t)(imagetest.Open(t, dest).Image.Manifest()).Layers
	if len(layers) != 2 || layers[0].MediaType != types.OCILayer || layers[1].MediaType != types.OCILayer {
		t.Errorf("got %+v", layers)
	}
}
