package images_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/tests/imagetest"
)

// artifact is a manifest that refers to another.
type artifact struct {
	kind    string
	subject v1.Descriptor
}

func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (a artifact) RawManifest() ([]byte, error) {
	return []byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"artifactType":%q,"config":{"mediaType":%q,"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[],"subject":{"mediaType":%q,"digest":%q,"size":%d}}`,
		types.OCIManifestSchema1, a.kind, a.kind, a.subject.MediaType, a.subject.Digest, a.subject.Size)), nil
}

// rawIndex is an index by its bytes.
type rawIndex []byte

func (r rawIndex) MediaType() (types.MediaType, error) { return types.OCIImageIndex, nil }
func (r rawIndex) RawManifest() ([]byte, error)        { return r, nil }

// TestSignatures: what cosign and notation leave in a registry is found, by tag and as a
// referrer, with the referrers API and without it; a base without any has none.
func TestSignatures(t *testing.T) {
	imagetest.NoDaemon(t)
	for _, api := range []bool{false, true} {
		f := imagetest.NewRegistryWith(t, api)
		img := imagetest.ProvedBase(t)
		base := "docker://" + f.Host + "/a:1"
		imagetest.Put(t, base, media.Result{Image: img})
		rebuilt := func() *images.Rebuilt {
			return imagetest.RebuildProved(t, base, "docker://"+f.Host+"/b:1", images.ProvenanceNone)
		}
		if r := rebuilt(); len(r.Signatures) != 0 || len(r.Warnings) != 1 {
			t.Errorf("api %v: got %+v, %q of a base that is not signed", api, r.Signatures, r.Warnings)
		}
		repo := imagetest.Must[name.Repository](t)(name.NewRepository(f.Host + "/a"))
		d := imagetest.Must[*v1.Descriptor](t)(partial.Descriptor(img))
		empty := static.NewLayer([]byte("{}"), provenance.EmptyConfigType)
		if err := remote.WriteLayer(repo, empty); err != nil {
			t.Fatal(err)
		}
		tag := repo.Tag("sha256-" + d.Digest.Hex + ".sig")
		if err := remote.Write(tag, imagetest.TinyImage(t)); err != nil {
			t.Fatal(err)
		}
		kinds := []string{"application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.cncf.notary.signature", "application/x-other"}
		for _, k := range kinds {
			a := artifact{k, *d}
			h, _, err := v1.SHA256(strings.NewReader(string(imagetest.Must[[]byte](t)(a.RawManifest()))))
			if err != nil {
				t.Fatal(err)
			}
			if err := remote.Put(repo.Digest(h.String()), a); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, s := range rebuilt().Signatures {
			got = append(got, s.Kind)
		}
		if !api {
			// As the go-containerregistry of cosign 3.1 writes the list.
			list := repo.Tag("sha256-" + d.Digest.Hex)
			raw := imagetest.Must[*remote.Descriptor](t)(remote.Get(list)).Manifest
			mistyped := bytes.ReplaceAll(raw, []byte(`"artifactType":"`+kinds[0]), []byte(`"artifactType":"`+string(provenance.EmptyConfigType)))
			if err := remote.Put(list, rawIndex(mistyped)); err != nil || bytes.Equal(raw, mistyped) {
				t.Fatal(err, string(raw))
			}
			if again := rebuilt().Signatures; len(again) != len(got) {
				t.Errorf("by a list with the type of the config: got %+v", again)
			}
		}
		slices.Sort(got)
		if want := []string{"cosign signature", "cosign signature or attestation", "notation signature"}; !slices.Equal(got, want) {
			t.Errorf("api %v: got %q, want %q", api, got, want)
		}
	}
}

// TestSignaturesUnknown: a registry that does not answer is not a reason to fail.
func TestSignaturesUnknown(t *testing.T) {
	imagetest.NoDaemon(t)
	f := imagetest.NewRegistryWith(t, false)
	base := "docker://" + f.Host + "/a:1"
	imagetest.Put(t, base, media.Result{Image: imagetest.ProvedBase(t)})
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ".sig") {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	r := imagetest.RebuildProved(t, base, "docker://"+f.Host+"/b:1", images.ProvenanceNone)
	if len(r.Warnings) != 2 || !strings.Contains(r.Warnings[1], "could not be found out") {
		t.Errorf("got %q", r.Warnings)
	}
}
