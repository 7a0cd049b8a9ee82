package images_test

import (
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/tests/imagetest"
)

// TestRebuildUnknownEntries: an index may list other things than images (image-spec image-index.md:
// media types that are not known must not be an error). It is copied as it is.
func TestRebuildUnknownEntries(t *testing.T) {
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("a", "1")})
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.oci.empty.v1+json")
	idx := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: static.NewLayer([]byte("<xml/>"), "application/xml")},
		mutate.IndexAddendum{Add: static.NewLayer([]byte(`{"blobs":[]}`), "application/vnd.oci.artifact.manifest.v1+json")},
		mutate.IndexAddendum{Add: artifact},
		mutate.IndexAddendum{Add: img})
	source := "oci:" + t.TempDir() + "/base:x"
	imagetest.Put(t, source, media.Result{Image: img, Index: idx})
	dir := t.TempDir()
	xml := strings.TrimPrefix(digestOf([]byte("<xml/>")), "sha256:")
	for _, dest := range []string{"oci:" + dir + "/out:x", "oci-archive:" + dir + "/out.tar:x"} {
		r := rebuildTo(t, source, dest)
		if r.Unchanged || len(r.Findings.Files) != 1 {
			t.Fatalf("%s: got %+v", dest, r)
		}
		imagetest.WantProblems(t, imagetest.Verify(t, dest, source))
		if got := len(imagetest.Must[*v1.IndexManifest](t)(imagetest.Open(t, dest).Index.IndexManifest()).Manifests); got != 4 {
			t.Errorf("%s: got %d entries, want 4", dest, got)
		}
	}
	if b, err := os.ReadFile(dir + "/out/blobs/sha256/" + xml); string(b) != "<xml/>" {
		t.Errorf("the entry that is not an image: got %q, %v", b, err)
	}
}
