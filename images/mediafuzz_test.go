package images

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// oneBlob has the same content under every digest.
type oneBlob []byte

func (b oneBlob) open(v1.Hash) (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

// FuzzManifest reads bytes as the manifest, index, index.json and config of an image. It
// must end in an error or an image whose parts agree, and an index must come out of being
// taken apart and put together as it went in.
func FuzzManifest(f *testing.F) {
	img := tinyImage(f)
	f.Add(must[[]byte](f)(img.RawManifest()))
	f.Add(must[[]byte](f)(img.RawConfigFile()))
	f.Add(must[[]byte](f)(tinyIndex(f).RawManifest()))
	f.Add([]byte(`{"manifests":[{}],"Manifests":null}`))
	f.Add([]byte(`{"schemaVersion":2,"layers":[{"size":-1}],"config":{"digest":"sha256:"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, size, _ := v1.SHA256(bytes.NewReader(data))
		o := MediaOptions{}.withDefaults()
		for _, mt := range []types.MediaType{types.OCIManifestSchema1, types.DockerManifestList} {
			src := &Source{}
			if err := src.choose(t.Context(), oneBlob(data), v1.Descriptor{MediaType: mt, Digest: h, Size: size}, o); err != nil {
				continue
			}
			m, err := src.Image.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range must[[]v1.Layer](t)(src.Image.Layers()) {
				if _, err := l.DiffID(); err != nil {
					t.Errorf("%v of %d layers: %v", mt, len(m.Layers), err)
				}
			}
		}
		fromLayout(t.Context(), Ref{}, oneBlob(data), []byte(layoutMarker), data, o)
		if x, err := parseIndexText(data); err == nil {
			if got := x.bytes(); !bytes.Equal(got, data) {
				t.Errorf("got %q, want %q", got, data)
			}
			for n := range x.entries {
				if err := x.replace(n, v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: h, Size: size}); err != nil {
					t.Error(err)
				}
			}
			if !json.Valid(x.bytes()) {
				t.Errorf("not JSON after replacing: %q", x.bytes())
			}
			for n := range x.entries {
				if n%2 == 0 {
					x.drop(n)
				}
			}
			if !json.Valid(x.bytes()) {
				t.Errorf("not JSON after dropping: %q", x.bytes())
			}
		}
	})
}

// FuzzArchive reads bytes as an archive of whatever kind; then as the manifest.json of one.
func FuzzArchive(f *testing.F) {
	img := tinyImage(f)
	f.Add(dockerSave(f, img, "redis:2.8"))
	f.Add(gzipOf(f, tarOf(f, "oci-layout", layoutMarker, "index.json", `{"manifests":[]}`)))
	f.Add([]byte(`[{"Config":"c","RepoTags":["a:1"],"Layers":["l"]}]`))
	dir := f.TempDir()
	f.Setenv("TMPDIR", f.TempDir())
	f.Fuzz(func(t *testing.T, data []byte) {
		config := `{"os":"linux","architecture":"amd64","rootfs":{"diff_ids":["sha256:` + string(bytes.Repeat([]byte("a"), 64)) + `"]}}`
		for _, d := range [][]byte{data, tarOf(t, "c", config, "l", "", archiveManifest, string(data))} {
			path := write(t, dir+"/x", d)
			src, err := Open(context.Background(), path, MediaOptions{})
			if err != nil {
				continue
			}
			if src.Image != nil {
				if err := checkImage(src.Image, MediaOptions{}.withDefaults().Platform); err != nil {
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
