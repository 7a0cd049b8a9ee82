package media_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// Layers and configs by sha512 (image-spec, descriptor.md, "Registered algorithms") are read and written like others: from a registry, a
// layout, an archive, into each of them.
func TestSHA512(t *testing.T) {
	img := imagetest.TinyImage(t)
	sum := func(b []byte) string { s := sha512.Sum512(b); return "sha512:" + hex.EncodeToString(s[:]) }
	m := imagetest.Must[*v1.Manifest](t)(img.Manifest())
	config := imagetest.Must[[]byte](t)(img.RawConfigFile())
	blobs := map[string][]byte{sum(config): config}
	text := strings.ReplaceAll(string(imagetest.Must[[]byte](t)(img.RawManifest())), m.Config.Digest.String(), sum(config))
	for n, l := range imagetest.Must[[]v1.Layer](t)(img.Layers()) {
		b := imagetest.Must[[]byte](t)(io.ReadAll(imagetest.Must[io.ReadCloser](t)(l.Compressed())))
		blobs[sum(b)] = b
		text = strings.ReplaceAll(text, m.Layers[n].Digest.String(), sum(b))
	}
	l := imagetest.Must[[]v1.Layer](t)(img.Layers())[0]

	f := imagetest.NewRegistry(t)
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		for digest, b := range blobs {
			if strings.HasSuffix(r.URL.Path, "/a/blobs/"+digest) {
				w.Write(b)
				return true
			}
		}
		if strings.HasSuffix(r.URL.Path, "/a/manifests/1") && r.Method != "PUT" {
			w.Header().Set("Content-Type", string(m.MediaType))
			io.WriteString(w, text)
			return true
		}
		return false
	})
	dir := t.TempDir()
	layout := filepath.Join(dir, "layout")
	digest := imagetest.Must[string](t)(func() (string, error) { h, _, err := v1.SHA256(strings.NewReader(text)); return h.String(), err }())
	put := func(digest string, b []byte) {
		algorithm, hex, _ := strings.Cut(digest, ":")
		if err := os.MkdirAll(filepath.Join(layout, "blobs", algorithm), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(layout, "blobs", algorithm, hex), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for d, b := range blobs {
		put(d, b)
	}
	put(digest, []byte(text))
	os.WriteFile(layout+"/oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644)
	os.WriteFile(layout+"/index.json", fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[{"mediaType":%q,"size":%d,"digest":%q,"annotations":{"org.opencontainers.image.ref.name":"1"}}]}`, m.MediaType, len(text), digest), 0o644)

	for _, from := range []string{"docker://" + f.Host + "/a:1", "oci:" + layout + ":1"} {
		o := images.ScanOptions{Media: imagetest.Fast}
		if found, err := images.Scan(context.Background(), from, o); err != nil || found.Unread() > 0 {
			t.Errorf("scan %s: got %+v, %v", from, found, err)
		}
		for _, to := range []string{"docker://" + f.Host + "/b:1", "oci:" + dir + "/out:1", "oci-archive:" + dir + "/out.tar:1", "docker-archive:" + dir + "/docker.tar:x/y:1"} {
			src, err := sources.Open(context.Background(), from, imagetest.Fast)
			if err != nil {
				t.Fatalf("%s: %v", from, err)
			}
			ref := imagetest.Must[media.Ref](t)(media.ParseRef(to))
			if _, err := sources.Put(context.Background(), ref, media.Result{Image: src.Image}, imagetest.Fast); err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
				continue
			}
			back := imagetest.Open(t, to)
			ls := imagetest.Must[[]v1.Layer](t)(back.Image.Layers())
			got := imagetest.Must[[]byte](t)(io.ReadAll(imagetest.Must[io.ReadCloser](t)(ls[0].Uncompressed())))
			want := imagetest.Must[[]byte](t)(io.ReadAll(imagetest.Must[io.ReadCloser](t)(l.Uncompressed())))
			if !bytes.Equal(got, want) {
				t.Errorf("%s to %s: other content", from, to)
			}
			os.RemoveAll(dir + "/out")
		}
	}
}
