package media_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// A foreign layer of a registry is not at hand, and is not requested; one that a layout has is.
func TestForeignLayerOfRegistry(t *testing.T) {
	img := imagetest.TinyImage(t)
	m := imagetest.Must[*v1.Manifest](t)(img.Manifest())
	layer := m.Layers[0].Digest.String()
	f := imagetest.NewRegistry(t)
	imagetest.Put(t, "docker://"+f.Host+"/a:1", media.Result{Image: img})
	raw := strings.Replace(string(imagetest.Must[[]byte](t)(img.RawManifest())), string(m.Layers[0].MediaType), string(types.DockerForeignLayer), 1)
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut || !strings.HasSuffix(r.URL.Path, "/a/manifests/1") {
			return false
		}
		w.Header().Set("Content-Type", string(m.MediaType))
		io.WriteString(w, raw)
		return true
	})
	src := imagetest.Open(t, "docker://"+f.Host+"/a:1")
	l := imagetest.Must[[]v1.Layer](t)(src.Image.Layers())
	if !media.IsForeign(l[0]) || media.AtHand(l[0]) || !media.AtHand(l[1]) {
		t.Errorf("foreign %v, at hand %v and %v", media.IsForeign(l[0]), media.AtHand(l[0]), media.AtHand(l[1]))
	}
	ref := imagetest.Must[media.Ref](t)(media.ParseRef("docker-archive:" + t.TempDir() + "/out.tar:x:1"))
	_, err := sources.Put(context.Background(), ref, media.Result{Image: src.Image}, imagetest.Fast)
	imagetest.WantErr(t, err, hinterr.ErrUnsupported, "is a foreign layer, which is not with the image")
	if f.Count(layer) != 0 {
		t.Errorf("the registry was asked for it: %q", f.Seen)
	}
	stored := imagetest.Must[[]v1.Layer](t)(imagetest.Open(t, imagetest.StoreOCI(t, img)).Image.Layers())
	if !media.AtHand(stored[0]) {
		t.Error("a layer of a layout is not at hand")
	}
}
