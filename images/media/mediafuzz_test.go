package media_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// FuzzManifest reads bytes as the manifest, index, index.json and config of an image. It
// must end in an error or an image whose parts agree, and an index must come out of being
// taken apart and put together as it went in.
func FuzzManifest(f *testing.F) {
	img := imagetest.TinyImage(f)
	f.Add(imagetest.Must[[]byte](f)(img.RawManifest()))
	f.Add(imagetest.Must[[]byte](f)(img.RawConfigFile()))
	f.Add(imagetest.Must[[]byte](f)(imagetest.TinyIndex(f).RawManifest()))
	f.Add([]byte(`{"manifests":[{}],"Manifests":null}`))
	f.Add([]byte(`{"schemaVersion":2,"layers":[{"size":-1}],"config":{"digest":"sha256:"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, size, _ := v1.SHA256(bytes.NewReader(data))
		o := media.Options{}.WithDefaults()
		for _, mt := range []types.MediaType{types.OCIManifestSchema1, types.DockerManifestList} {
			src := &media.Source{}
			if err := src.Choose(t.Context(), imagetest.OneBlob(data), v1.Descriptor{MediaType: mt, Digest: h, Size: size}, o); err != nil {
				continue
			}
			m, err := src.Image.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range imagetest.Must[[]v1.Layer](t)(src.Image.Layers()) {
				if _, err := l.DiffID(); err != nil {
					t.Errorf("%v of %d layers: %v", mt, len(m.Layers), err)
				}
			}
		}
		media.FromLayout(t.Context(), media.Ref{}, imagetest.OneBlob(data), []byte(media.LayoutMarker), data, o)
		if x, err := media.ParseIndexText(data); err == nil {
			if got := x.Bytes(); !bytes.Equal(got, data) {
				t.Errorf("got %q, want %q", got, data)
			}
			for n := range x.Entries {
				if err := x.Replace(n, v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: h, Size: size}); err != nil {
					t.Error(err)
				}
			}
			if !json.Valid(x.Bytes()) {
				t.Errorf("not JSON after replacing: %q", x.Bytes())
			}
			for n := range x.Entries {
				if n%2 == 0 {
					x.Drop(n)
				}
			}
			if !json.Valid(x.Bytes()) {
				t.Errorf("not JSON after dropping: %q", x.Bytes())
			}
		}
	})
}

// FuzzArchive reads bytes as an archive of whatever kind; then as the manifest.json of one.
func FuzzArchive(f *testing.F) {
	img := imagetest.TinyImage(f)
	f.Add(imagetest.DockerSave(f, img, "redis:2.8"))
	f.Add(imagetest.GzipOf(f, imagetest.TarOf(f, "oci-layout", media.LayoutMarker, "index.json", `{"manifests":[]}`)))
	f.Add([]byte(`[{"Config":"c","RepoTags":["a:1"],"Layers":["l"]}]`))
	dir := f.TempDir()
	f.Setenv("TMPDIR", f.TempDir())
	f.Fuzz(func(t *testing.T, data []byte) {
		config := `{"os":"linux","architecture":"amd64","rootfs":{"diff_ids":["sha256:` + string(bytes.Repeat([]byte("a"), 64)) + `"]}}`
		for _, d := range [][]byte{data, imagetest.TarOf(t, "c", config, "l", "", media.ArchiveManifest, string(data))} {
			path := imagetest.Write(t, dir+"/x", d)
			src, err := sources.Open(context.Background(), path, media.Options{})
			if err != nil {
				continue
			}
			if src.Image != nil {
				if err := media.CheckImage(src.Image, media.Options{}.WithDefaults().Platform); err != nil {
					t.Error(err)
				}
			}
			if err := src.Close(); err != nil {
				t.Error(err)
			}
		}
		if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
			t.Errorf("left over: %v", left[0].Name())
		}
	})
}
