package provenance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
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
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

const (
	inToto       = "application/vnd.in-toto+json"
	predicateKey = "in-toto.io/predicate-type"
)

// stranger is a statement about another image.
var stranger = fmt.Sprintf(`{"_type":%q,"predicateType":%q,"subject":[{"digest":{"sha256":%q}}]}`,
	provenance.StatementType, provenance.PredicateType, strings.Repeat("1", 64))

// decoy is a referrer that is not the statement that is looked for.
type decoy struct {
	name         string
	artifactType string            // of the manifest
	notes        map[string]string // annotations of it
	layer        types.MediaType   // of its one layer; "": it has none
	body         string
	size         int64 // of the layer as the manifest says, if not that of body
}

type rawManifest struct {
	mediaType types.MediaType
	raw       []byte
}

func (m rawManifest) MediaType() (types.MediaType, error) { return m.mediaType, nil }
func (m rawManifest) RawManifest() ([]byte, error)        { return m.raw, nil }

// push pushes it as a referrer of subject.
func (d decoy) push(t *testing.T, repo name.Repository, subject v1.Descriptor) {
	t.Helper()
	layers := []v1.Descriptor{}
	if d.layer != "" {
		l := static.NewLayer([]byte(d.body), d.layer)
		if err := remote.WriteLayer(repo, l); err != nil {
			t.Fatal(err)
		}
		desc := imagetest.Must[*v1.Descriptor](t)(partial.Descriptor(l))
		if d.size != 0 {
			desc.Size = d.size
		}
		layers = append(layers, *desc)
	}
	config := static.NewLayer([]byte("{}"), provenance.EmptyConfigType)
	if err := remote.WriteLayer(repo, config); err != nil {
		t.Fatal(err)
	}
	m := map[string]any{
		"schemaVersion": 2, "mediaType": types.OCIManifestSchema1, "annotations": d.notes, "layers": layers, "subject": subject,
		"config": imagetest.Must[*v1.Descriptor](t)(partial.Descriptor(config)),
	}
	if d.artifactType != "" {
		m["artifactType"] = d.artifactType
	}
	raw := imagetest.Must[[]byte](t)(json.Marshal(m))
	h, _, err := v1.SHA256(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Put(repo.Digest(h.String()), rawManifest{types.OCIManifestSchema1, raw}); err != nil {
		t.Fatal(err)
	}
}

// find finds the statement about an image, as verify does.
func find(t *testing.T, source string) (*images.Verified, error) {
	return images.Verify(t.Context(), source, images.VerifyOptions{Provenance: true, ScanOptions: images.ScanOptions{Media: imagetest.Fast}})
}

// TestDecoys: among other referrers of an image, the statement about it is found; without it, nothing else is taken for
// it, and what cannot be read is an error.
func TestDecoys(t *testing.T) {
	imagetest.NoDaemon(t)
	ours := map[string]string{predicateKey: provenance.PredicateType}
	for _, api := range []bool{false, true} {
		f := imagetest.NewRegistryWith(t, api)
		base := "docker://" + f.Host + "/base:1"
		imagetest.Put(t, base, media.Result{Image: imagetest.ProvedBase(t)})
		for _, tc := range []struct {
			decoy
			alone string // the error if there is no other referrer
		}{
			{decoy{"a statement about another image", inToto, ours, inToto, stranger, 0}, "no statement of provenance refers to it"},
			{decoy{"another predicate", inToto, map[string]string{predicateKey: "https://slsa.dev/provenance/v1"}, inToto, "not read", 0}, "no statement of provenance refers to it"},
			{decoy{"another type, without annotations", "application/spdx+json", nil, inToto, "not read", 0}, "no statement of provenance refers to it"},
			{decoy{"no layer", inToto, ours, "", "", 0}, "no statement of provenance refers to it"},
			{decoy{"a layer of another type", inToto, ours, "text/plain", "not read", 0}, "no statement of provenance refers to it"},
			{decoy{"text that is not JSON", inToto, ours, inToto, "[", 0}, "statement"},
			{decoy{"a statement that is too large", inToto, ours, inToto, "{}", 64<<20 + 1}, "67108865 bytes"},
		} {
			t.Run(fmt.Sprintf("%s, API %v", tc.name, api), func(t *testing.T) {
				at := f.Host + "/" + strings.ToLower(strings.NewReplacer(" ", "-", ",", "").Replace(tc.name))
				dest := "docker://" + at + ":1"
				repo := imagetest.Must[name.Repository](t)(name.NewRepository(at))
				imagetest.RebuildProved(t, base, dest, images.ProvenanceNone)
				subject := *imagetest.Must[*v1.Descriptor](t)(remote.Head(repo.Tag("1")))
				tc.push(t, repo, subject)
				found, err := find(t, dest)
				if err == nil || !strings.Contains(err.Error(), tc.alone) || !strings.Contains(err.Error(), f.Host) {
					t.Errorf("alone: got %+v, %v, want %q", found, err, tc.alone)
				}
				imagetest.RebuildProved(t, base, dest, images.ProvenanceAuto)
				found, err = find(t, dest)
				if err != nil || !found.Stated.Statement.HasSubject([]v1.Hash{subject.Digest}) {
					t.Errorf("beside the statement: got %+v, %v", found, err)
				}
			})
		}
	}
}

// TestUntypedReferrers: where a list has the type of the config in place of the type, the manifest has it; of a hundred at
// most, so that a long list costs a bounded number of requests.
func TestUntypedReferrers(t *testing.T) {
	f := imagetest.NewRegistryWith(t, false)
	repo := imagetest.Must[name.Repository](t)(name.NewRepository(f.Host + "/a"))
	subject := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("2", 64)}, Size: 1}
	decoy{"", inToto, nil, "", "", 0}.push(t, repo, subject)
	list := repo.Tag("sha256-" + subject.Digest.Hex)
	var m v1.IndexManifest
	if err := json.Unmarshal(imagetest.Must[*remote.Descriptor](t)(remote.Get(list)).Manifest, &m); err != nil {
		t.Fatal(err)
	}
	there := m.Manifests[0]
	gone := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("3", 64)}, Size: 1}
	for _, tc := range []struct {
		name   string
		listed string // the type in the list
		before int    // entries without a type, of manifests that are gone
		want   string
	}{
		{"no type", "", 0, inToto},
		{"that of the config", string(provenance.EmptyConfigType), 99, inToto},
		{"behind a hundred", string(provenance.EmptyConfigType), 100, string(provenance.EmptyConfigType)},
		{"a type", "text/plain", 0, "text/plain"},
	} {
		m.Manifests = nil
		for range tc.before {
			m.Manifests = append(m.Manifests, gone)
		}
		there.ArtifactType = tc.listed
		m.Manifests = append(m.Manifests, there)
		raw := imagetest.Must[[]byte](t)(json.Marshal(m))
		f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/manifests/"+list.TagStr()) {
				return false
			}
			w.Header().Set("Content-Type", string(types.OCIImageIndex))
			w.Write(raw)
			return true
		})
		all, err := provenance.ReferrersOf(repo, subject.Digest, nil)
		if err != nil || len(all) != tc.before+1 || all[tc.before].ArtifactType != tc.want {
			t.Errorf("%s: got %d referrers, the last %+v, %v; want type %q", tc.name, len(all), all[max(0, len(all)-1)], err, tc.want)
		}
	}
}

// TestStatementOfAnotherTag: the statement beside a layout is found by its subject if another tag names the image, whatever
// characters the layout's own name has.
func TestStatementOfAnotherTag(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.ProvedBase(t))
	dir := t.TempDir() + "/o[u]t*?\\"
	imagetest.RebuildProved(t, source, "oci:"+dir+":x", images.ProvenanceAuto)
	mine, another := dir+".x.intoto.json", dir+".y.intoto.json"
	if err := os.Rename(mine, another); err != nil {
		t.Fatal(err)
	}
	imagetest.Write(t, dir+".a.intoto.json", []byte("[")) // passed over
	imagetest.Write(t, dir+".b.intoto.json", []byte(stranger))
	if _, err := find(t, "oci:"+dir+":x"); err != nil {
		t.Error(err)
	}
	imagetest.Write(t, mine, []byte("[")) // under the image's own name an error
	_, err := find(t, "oci:"+dir+":x")
	imagetest.WantErr(t, err, nil, mine+": ")
	if err := errors.Join(os.Remove(mine), os.Rename(another, dir+"y.x.intoto.json")); err != nil {
		t.Fatal(err)
	}
	_, err = find(t, "oci:"+dir+":x")
	imagetest.WantErr(t, err, hinterr.ErrNotFound, mine+" is not there")
}
