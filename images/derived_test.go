package images_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/tests/imagetest"
)

// Members of a manifest: those that vfix does not know stay, and a copy of the config in it goes.
func TestEditManifest(t *testing.T) {
	added := imagetest.Must[*blob.PackedLayer](t)(blob.PackLayer(1, func(w io.Writer) error {
		_, err := w.Write(imagetest.TarMembers(t, imagetest.FileM("x", nil)))
		return err
	}))
	defer added.Close()
	const config, layer = `{"mediaType":"application/vnd.docker.container.image.v1+json","data":"e30=","y":2}`, `{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","x":1}`
	for raw, want := range map[string]string{
		`{"config":` + config + `,"layers":[` + layer + `],"annotations":{"a":"b"},"z":3}`: fmt.Sprintf(`{"annotations":{"a":"b","dev.vfix.version":"1"},`+
			`"config":{"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","mediaType":"application/vnd.oci.image.config.v1+json","size":2,"y":2},`+
			`"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","x":1},{"digest":"%v","mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","size":%d}],`+
			`"mediaType":"application/vnd.oci.image.manifest.v1+json","z":3}`, added.PackedDigest, added.PackedSize),
		`null`: "manifest: null", `{}`: "config: missing", `{"config":{"mediaType":7}}`: "config: mediaType: ", `{"config":{},"layers":[{"mediaType":7}]}`: "layers: mediaType: ",
		`{"config":{},"layers":7}`: "layers: ", `{"config":{},"layers":[],"annotations":7}`: "annotations: ",
	} {
		got, err := images.EditManifest(raw, added)
		if err != nil {
			got = []byte(err.Error())
		}
		if !strings.Contains(string(got), want) || (err == nil) != strings.HasPrefix(want, "{") {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// The row of the history has the date of the base, if it has one.
func TestHistoryDate(t *testing.T) {
	for created, want := range map[string]string{`"created":"2014-05-06T07:08:09Z",`: `"2014-05-06T07:08:09Z"`, `"created":null,`: "", "": ""} {
		raw := imagetest.Must[[]byte](t)(images.EditConfig([]byte(`{`+created+`"rootfs":{"diff_ids":[]}}`), 0, v1.Hash{}, false))
		var c struct{ History []map[string]json.RawMessage }
		if err := json.Unmarshal(raw, &c); err != nil || len(c.History) != 1 || string(c.History[0]["created"]) != want {
			t.Errorf("%s: got %s, %v", created, raw, err)
		}
	}
}

// A config with members of other types than an image's is an error, whatever is added.
func TestEditConfigErrors(t *testing.T) {
	for _, raw := range []string{
		`{"rootfs":{"diff_ids":[]},"history":7}`, `{"rootfs":{"diff_ids":["sha256:aa"]}}`, `{"rootfs":{"diff_ids":7}}`, `{"rootfs":{"diff_ids":[]},"config":7}`,
		`{"rootfs":{"diff_ids":[]},"config":{"Labels":7}}`, `7`,
	} {
		for _, traced := range []bool{true, false} {
			if got, err := images.EditConfig([]byte(raw), 0, v1.Hash{}, traced); err == nil {
				t.Errorf("%s: got %s", raw, got)
			}
		}
	}
}

// brokenConfig is an image whose config has labels that are no object.
type brokenConfig struct{ v1.Image }

func (b brokenConfig) RawConfigFile() ([]byte, error) {
	raw, err := b.Image.RawConfigFile()
	return bytes.Replace(raw, []byte(`"config":{`), []byte(`"config":{"Labels":7,`), 1), err
}

func (b brokenConfig) ConfigName() (v1.Hash, error) {
	raw, err := b.RawConfigFile()
	h, _, _ := v1.SHA256(bytes.NewReader(raw))
	return h, err
}

func (b brokenConfig) RawManifest() ([]byte, error) {
	m, err := b.Image.Manifest()
	if err != nil {
		return nil, err
	}
	m = m.DeepCopy()
	raw, err := b.RawConfigFile()
	m.Config.Digest, m.Config.Size, _ = v1.SHA256(bytes.NewReader(raw))
	text, _ := json.Marshal(m)
	return text, err
}

func (b brokenConfig) Manifest() (*v1.Manifest, error) { return partial.Manifest(b) }
func (b brokenConfig) Digest() (v1.Hash, error)        { return partial.Digest(b) }
func (b brokenConfig) Size() (int64, error)            { return partial.Size(b) }

// A base whose config cannot be edited is an error of a rebuild and of a verify, and nothing is written.
func TestBrokenConfig(t *testing.T) {
	good := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")})
	dir := filepath.Join(t.TempDir(), "base")
	if err := imagetest.Must[layout.Path](t)(layout.Write(dir, empty.Index)).AppendImage(brokenConfig{good}); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if r, err := images.Rebuild(t.Context(), "oci:"+dir, images.RebuildOptions{Dest: "oci:" + out + "/x:x"}); err == nil || !strings.Contains(err.Error(), "Labels") {
		t.Errorf("got %+v, %v", r, err)
	}
	imagetest.WantEmpty(t, out)
	if v, err := images.Verify(t.Context(), imagetest.StoreOCI(t, good), images.VerifyOptions{Against: "oci:" + dir}); err == nil {
		t.Errorf("verify: got %+v", v)
	}
}

// An image of a docker manifest list stays one of docker's. In a layout the list becomes an index of OCI, which skopeo
// and podman read.
func TestInManifestList(t *testing.T) {
	docker := imagetest.Must[v1.Image](t)(mutate.Append(empty.Image, mutate.Addendum{
		Layer: imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("lib/a", "1"))), MediaType: types.DockerLayer}))
	config := imagetest.Must[*v1.ConfigFile](t)(docker.ConfigFile()).DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	docker = imagetest.Must[v1.Image](t)(mutate.ConfigFile(docker, config))
	for kind, oci := range map[types.MediaType]bool{types.DockerManifestList: false, types.OCIImageIndex: true} {
		list := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, kind), mutate.IndexAddendum{
			Add: docker, Descriptor: v1.Descriptor{MediaType: types.DockerManifestSchema2, Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
		dir := filepath.Join(t.TempDir(), "base")
		if err := imagetest.Must[layout.Path](t)(layout.Write(dir, empty.Index)).AppendIndex(list); err != nil {
			t.Fatal(err)
		}
		dest := "oci:" + t.TempDir() + "/out:x"
		rebuildTo(t, "oci:"+dir, dest)
		got := imagetest.Open(t, dest)
		if index := imagetest.Must[types.MediaType](t)(got.Index.MediaType()); index != types.OCIImageIndex {
			t.Errorf("%s: the layout has %s", kind, index)
		}
		o := images.VerifyOptions{Against: "oci:" + dir}
		if v, err := images.Verify(t.Context(), dest, o); err != nil || v.Compared != 1 || len(v.Problems) > 0 {
			t.Errorf("%s: verify: got %+v, %v", kind, v, err)
		}
		m := imagetest.Must[*v1.Manifest](t)(got.Image.Manifest())
		want := []types.MediaType{types.DockerManifestSchema2, types.DockerConfigJSON, types.DockerLayer, types.DockerLayer}
		if oci {
			want = []types.MediaType{types.OCIManifestSchema1, types.OCIConfigJSON, types.OCILayer, types.OCILayer}
		}
		has := []types.MediaType{m.MediaType, m.Config.MediaType}
		for _, l := range m.Layers {
			has = append(has, l.MediaType)
		}
		if fmt.Sprint(has) != fmt.Sprint(want) || (len(m.Annotations) > 0) != oci {
			t.Errorf("%s: got %s, annotations %v", kind, has, m.Annotations)
		}
	}
}

// What the result says about itself and its base, whatever becomes of it.
func TestResult(t *testing.T) {
	legacy, modern := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")}), imagetest.Stack(t, []imagetest.TestMember{imagetest.ModernM("lib/b")})
	digest := func(img v1.Image) string { return imagetest.Must[v1.Hash](t)(img.Digest()).String() }
	id := imagetest.Must[v1.Hash](t)(legacy.ConfigName()).String()
	stored, plain := imagetest.StoreOCI(t, legacy), imagetest.StoreOCI(t, modern)
	saved := "docker-archive:" + imagetest.Write(t, t.TempDir()+"/saved.tar", imagetest.DockerSave(t, legacy, "base:1"))
	dir := imagetest.LegacyDir(t)
	dest, rootDest := "oci:"+t.TempDir()+"/out:x", "dir:"+t.TempDir()+"/out"
	for n, c := range []struct {
		source, dest                            string
		unchanged                               bool
		reference, digest, base, name, baseName string
	}{
		{stored, dest, false, dest, "DERIVED", digest(legacy), "base", "base"},
		{stored, "", false, stored, "", digest(legacy), "", "base"},
		{plain, dest, true, dest, digest(modern), digest(modern), "", "base"},
		{plain, "", true, plain, digest(modern), digest(modern), "", "base"},
		{saved, dest, false, dest, "DERIVED", id, "base:1", "base:1"},
		{plain, rootDest, true, rootDest, "", digest(modern), "", "base"},
		{"dir:" + dir, dest, false, dest, "DERIVED", "", "root", "root"},
	} {
		provenance := filepath.Join(t.TempDir(), "p.json")
		notes := &imagetest.Notes{}
		o := images.RebuildOptions{Dest: c.dest, DryRun: c.dest == "", Version: "1.2", Provenance: provenance}
		o.Media.Progress = notes
		r := imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), c.source, o))
		if got := strings.Contains(strings.Join(notes.Text, "\n"), "nothing to do: "+c.dest+" gets the base as it is"); got != (c.unchanged && c.dest != "") {
			t.Errorf("%d: got the notes %q", n, notes.Text)
		}
		if c.digest == "DERIVED" {
			c.digest = digest(imagetest.Open(t, dest).Image)
		}
		if r.Unchanged != c.unchanged || r.Reference != c.reference || r.Digest != c.digest || r.BaseDigest != c.base && c.base != "" || r.BaseName != c.baseName {
			t.Errorf("%d: got %+v, want %+v", n, r, c)
		}
		if wanted := c.dest != "" && !c.unchanged; (r.Provenance == provenance) != wanted {
			t.Errorf("%d: got the statement %q", n, r.Provenance)
		} else if files := []string{"p.json"}; wanted {
			imagetest.WantEmpty(t, filepath.Dir(provenance), files...)
		} else {
			imagetest.WantEmpty(t, filepath.Dir(provenance))
		}
		if c.dest == "" || c.unchanged {
			continue
		}
		labels := imagetest.Must[*v1.ConfigFile](t)(imagetest.Open(t, dest).Image.ConfigFile()).Config.Labels
		if labels[images.KeyBaseName] != c.name || labels[images.KeyBaseDigest] != r.BaseDigest || labels["dev.vfix.options"] != "fallback=never" {
			t.Errorf("%d: got the labels %v", n, labels)
		}
	}
}

// The layers of an image in a registry are downloaded once, also if they are copied.
func TestLayersOnce(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", "1")})
	imagetest.Put(t, "docker://"+f.Host+"/app:1", source.Result{Image: img})
	layer := imagetest.Must[v1.Hash](t)(imagetest.Must[[]v1.Layer](t)(img.Layers())[0].Digest())
	for _, dest := range []string{"oci:" + t.TempDir() + "/out:x", "docker://" + f.Host + "/app:2"} {
		f.Reset(nil)
		o := images.RebuildOptions{Dest: dest, ScanOptions: images.ScanOptions{Media: imagetest.Fast}}
		r, err := images.Rebuild(t.Context(), "docker://"+f.Host+"/app:1", o)
		if err != nil || r.Unchanged {
			t.Fatalf("%s: got %+v, %v", dest, r, err)
		}
		if n := f.Count("GET /v2/app/blobs/" + layer.String()); n != 1 {
			t.Errorf("%s: the layer was read %d times", dest, n)
		}
	}
}

// A directory has no label with the options of its rebuild: they are the defaults.
func TestVerifyDefaults(t *testing.T) {
	base := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LoaderM(), imagetest.LegacyM("lib/a", "1"), imagetest.LeftM("lib/odd.so", true)}))
	dest := "dir:" + t.TempDir() + "/out"
	imagetest.RebuildWith(t, base, dest, fallback.FallbackAuto)
	v := imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), dest, images.VerifyOptions{Against: base, ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}}))
	imagetest.WantProblems(t, v)
	if v.Compared != 1 {
		t.Errorf("got %d compared", v.Compared)
	}
}
