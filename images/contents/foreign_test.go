package contents_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// absentHere is a foreign layer that its registry does not have.
type absentHere struct{ v1.Layer }

func (absentHere) MediaType() (types.MediaType, error) { return types.DockerForeignLayer, nil }
func (absentHere) Compressed() (io.ReadCloser, error) {
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "no such blob")
}

// A foreign layer is read if a layout has it; one that is damaged there is an error, and not absent.
func TestForeignLayerInLayout(t *testing.T) {
	for what, want := range map[string]contents.Verdict{"here": contents.Affected, "gone": contents.Incomplete, "damaged": contents.Incomplete} {
		layer := blob.AsType(imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("a", "1"))), types.OCIRestrictedLayer)
		source := imagetest.StoreOCI(t, imagetest.ImageOf(t, layer))
		dir, _, _ := strings.Cut(strings.TrimPrefix(source, "oci:"), ":")
		name := filepath.Join(dir, "blobs/sha256", imagetest.Must[v1.Hash](t)(layer.Digest()).Hex)
		switch what {
		case "gone":
			os.Remove(name)
		case "damaged":
			b := imagetest.Must[[]byte](t)(os.ReadFile(name))
			b[len(b)/2] ^= 1
			imagetest.Write(t, name, b)
		}
		f, _, err := imagetest.ScanImage(t, imagetest.Open(t, source).Image)
		if damaged := what == "damaged"; errors.Is(err, hinterr.ErrDamaged) != damaged || !damaged && (err != nil || f.Verdict() != want) {
			t.Errorf("%s: got %+v, %v", what, f, err)
		}
	}
}

// unread is a layer whose content is in a format that vfix does not read.
type unread struct {
	v1.Layer
	mediaType types.MediaType
}

func (l *unread) MediaType() (types.MediaType, error) { return l.mediaType, nil }

// An unread file makes a scan incomplete and clears nothing; a damaged layer is an error.
func TestUnreadLayers(t *testing.T) {
	const text = "encrypted, or a picture"
	for name, c := range map[string]struct {
		content   string
		mediaType types.MediaType
		reason    string // "" for an error
	}{
		"foreign":       {"", types.DockerForeignLayer, "foreign"},
		"encrypted":     {text, "application/vnd.oci.image.layer.v1.tar+gzip+encrypted", "of media type application/vnd.oci.image.layer.v1.tar+gzip+encrypted"},
		"a type of old": {text, "application/octet-stream", "of media type application/octet-stream"},
		"damaged":       {strings.Repeat(text, 99), types.OCILayer, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var odd v1.Layer = absentHere{imagetest.BytesLayer(t, []byte(text))}
			if c.content != "" {
				odd = &unread{imagetest.BytesLayer(t, []byte(c.content)), c.mediaType}
			}
			img := imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.FileM("bin/x", imagetest.ModernELF("x")))), odd)
			f, _, err := imagetest.ScanImage(t, img)
			if c.reason == "" {
				if err == nil {
					t.Fatalf("got %+v, want an error", f.Passed)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			id := imagetest.Must[v1.Hash](t)(odd.DiffID()).String()
			if f.Verdict() != contents.Incomplete || f.Remaining() != contents.Incomplete || f.Complete() || len(f.Passed) != 1 ||
				f.Passed[0].Layer != id || !strings.Contains(f.Passed[0].Reason, c.reason) || f.UnreadText() != "1 part could not be read" {
				t.Errorf("got %v, %+v", f.Verdict(), f.Passed)
			}
		})
	}
}

// A layer that one image of a list lacks is read for the next image that has it.
func TestUnreadLayerOfAnotherImage(t *testing.T) {
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("old", "1")})
	layer := imagetest.Must[[]v1.Layer](t)(img.Layers())[0]
	s := imagetest.TestSession(t)
	for _, c := range []struct {
		img  v1.Image
		want contents.Verdict
	}{{imagetest.ImageOf(t, absentHere{layer}), contents.Incomplete}, {img, contents.Affected}} {
		tree, err := s.Image(t.Context(), c.img)
		if err != nil {
			t.Fatal(err)
		}
		if f := tree.Findings(); f.Verdict() != c.want {
			t.Errorf("got %v, want %v", f.Verdict(), c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	for v, want := range map[contents.Verdict]string{contents.Incomplete: "INCOMPLETE", contents.NotAffected: "NOT AFFECTED", contents.Affected: "AFFECTED"} {
		if v.String() != want {
			t.Errorf("got %v, want %s", v, want)
		}
	}
}
