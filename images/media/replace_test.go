package media_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func TestReplaceInIndex(t *testing.T) {
	idx := imagetest.TinyIndex(t)
	d, _, err := media.Pick(idx, v1.Platform{OS: "linux", Architecture: "amd64"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	fresh := imagetest.PlatformImage(t, "amd64", "derived")
	out := imagetest.Must[v1.ImageIndex](t)(media.ReplaceInIndex(idx, d, fresh))
	raw := imagetest.Must[[]byte](t)(out.RawManifest())
	if !json.Valid(raw) {
		t.Fatalf("not JSON: %s", raw)
	}
	m := imagetest.Must[*v1.IndexManifest](t)(out.IndexManifest())
	if len(m.Manifests) != 2 {
		t.Fatalf("got %d entries, want 2 without the attestation", len(m.Manifests))
	}
	e := m.Manifests[1]
	if e.Digest != imagetest.Must[v1.Hash](t)(fresh.Digest()) || e.Size != imagetest.Must[int64](t)(fresh.Size()) ||
		e.Platform.Architecture != "amd64" || e.Annotations["kept"] != "yes" {
		t.Errorf("replaced entry: %+v", e)
	}
	before := imagetest.Must[*media.IndexText](t)(media.ParseIndexText(imagetest.Must[[]byte](t)(idx.RawManifest())))
	after := imagetest.Must[*media.IndexText](t)(media.ParseIndexText(raw))
	if !bytes.Equal(before.Text(0), after.Text(0)) || !bytes.Contains(after.Text(0), []byte(`"variant":   "v8"`)) {
		t.Errorf("the other entry changed:\n%s\nwas\n%s", after.Text(0), before.Text(0))
	}
	if err := validate.Index(out); err != nil {
		t.Error(err)
	}
	again := imagetest.Must[v1.ImageIndex](t)(media.ReplaceInIndex(idx, d, fresh))
	if !bytes.Equal(raw, imagetest.Must[[]byte](t)(again.RawManifest())) {
		t.Error("the same replacement gave other bytes")
	}
}

// Of a changed index, what it does not have is missing.
func TestReplacedIndexLacks(t *testing.T) {
	idx := imagetest.TinyIndex(t)
	d, _, err := media.Pick(idx, v1.Platform{OS: "linux", Architecture: "amd64"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := imagetest.Must[v1.ImageIndex](t)(media.ReplaceInIndex(idx, d, imagetest.PlatformImage(t, "amd64", "derived")))
	none := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
	if _, err := out.Image(none); err == nil {
		t.Error("an image: no error")
	}
	if _, err := out.ImageIndex(none); err == nil {
		t.Error("an index: no error")
	}
	if img, err := out.Image(imagetest.Must[*v1.IndexManifest](t)(idx.IndexManifest()).Manifests[0].Digest); err != nil {
		t.Errorf("the other platform: got %v, %v", img, err)
	}
	if got, want := imagetest.Must[types.MediaType](t)(out.MediaType()), types.OCIImageIndex; got != want {
		t.Errorf("got the media type %s", got)
	}
	if got, want := imagetest.Must[int64](t)(out.Size()), int64(len(imagetest.Must[[]byte](t)(out.RawManifest()))); got != want {
		t.Errorf("got the size %d, want %d", got, want)
	}
}

func TestReplaceInNestedIndex(t *testing.T) {
	inner := imagetest.TinyIndex(t)
	outer := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: imagetest.PlatformImage(t, "s390x", "other")},
		mutate.IndexAddendum{Add: inner, Descriptor: v1.Descriptor{Annotations: map[string]string{"in": "yes"}}})
	want := v1.Platform{OS: "linux", Architecture: "amd64"}
	d, _, err := media.Pick(outer, want, blob.MaxNesting)
	if err != nil {
		t.Fatal(err)
	}
	fresh := imagetest.PlatformImage(t, "amd64", "derived")
	out := imagetest.Must[v1.ImageIndex](t)(media.ReplaceInIndex(outer, d, fresh))
	if err := validate.Index(out); err != nil {
		t.Error(err)
	}
	_, img, err := media.Pick(out, want, blob.MaxNesting)
	if err != nil {
		t.Fatal(err)
	}
	imagetest.SameImage(t, img, fresh)
	m := imagetest.Must[*v1.IndexManifest](t)(out.IndexManifest())
	if m.Manifests[1].Annotations["in"] != "yes" {
		t.Errorf("entry of the inner index: %+v", m.Manifests[1])
	}
	// A second replacement, of the other platform, drops nothing more.
	twice := imagetest.Must[v1.ImageIndex](t)(media.ReplaceInIndex(out, m.Manifests[0], imagetest.PlatformImage(t, "s390x", "derived")))
	for _, idx := range []v1.ImageIndex{out, twice} {
		n := &imagetest.Notes{}
		media.NoteDropped(idx, n)
		if len(n.Text) != 1 || !strings.Contains(n.Text[0], "attestation manifest sha256:") {
			t.Errorf("notes: %q", n.Text)
		}
	}
}

// An image in an index in an index … is replaced down to as many of them as are read.
func TestReplaceDepth(t *testing.T) {
	old, fresh := imagetest.PlatformImage(t, "amd64", "old"), imagetest.PlatformImage(t, "amd64", "derived")
	var idx v1.ImageIndex = mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: old})
	d := v1.Descriptor{Digest: imagetest.Must[v1.Hash](t)(old.Digest())}
	for depth := range blob.MaxNesting + 2 {
		_, err := media.ReplaceInIndex(idx, d, fresh)
		if deep := depth > blob.MaxNesting; deep != errors.Is(err, hinterr.ErrNotFound) || deep != (err != nil) {
			t.Errorf("depth %d: got %v", depth, err)
		}
		idx = mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: idx})
	}
}

func TestReplaceMissing(t *testing.T) {
	_, err := media.ReplaceInIndex(imagetest.TinyIndex(t), v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}}, imagetest.TinyImage(t))
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "sha256:0000")
}

func TestIndexText(t *testing.T) {
	h := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	entry := func(c string) string { return `{"digest":"` + h(c) + `","size":1,"mediaType":"m"}` }
	for _, c := range []struct {
		name, in, want string
		drop           []int
	}{
		{"none", `{"manifests": [ ` + entry("a") + ` , ` + entry("b") + ` ] }`, `{"manifests": [ ` + entry("a") + ` , ` + entry("b") + ` ] }`, nil},
		{"first", `{"manifests":[ ` + entry("a") + ` , ` + entry("b") + ` ],"z":1}`, `{"manifests":[ ` + entry("b") + ` ],"z":1}`, []int{0}},
		{"pretty: the first", "{\n  \"manifests\": [\n    " + entry("a") + ",\n    " + entry("b") + "\n  ]\n}\n", "{\n  \"manifests\": [\n    " + entry("b") + "\n  ]\n}\n", []int{0}},
		{"pretty: the last", "{\n  \"manifests\": [\n    " + entry("a") + ",\n    " + entry("b") + "\n  ]\n}\n", "{\n  \"manifests\": [\n    " + entry("a") + "\n  ]\n}\n", []int{1}},
		{"last", `{"manifests":[` + entry("a") + `,` + entry("b") + `]}`, `{"manifests":[` + entry("a") + `]}`, []int{1}},
		{"middle", `{"manifests":[` + entry("a") + `,` + entry("b") + `,` + entry("c") + `]}`, `{"manifests":[` + entry("a") + `,` + entry("c") + `]}`, []int{1}},
		{"all", `{"manifests":[` + entry("a") + `]}`, `{"manifests":[]}`, []int{0}},
	} {
		x, err := media.ParseIndexText([]byte(c.in))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, n := range c.drop {
			x.Drop(n)
		}
		for range 2 { // it can be asked again
			if got := string(x.Bytes()); got != c.want {
				t.Errorf("%s: got %s, want %s", c.name, got, c.want)
			}
		}
		if n := len(x.Entries) - 1; !slices.Contains(c.drop, n) && !bytes.Contains(x.Text(n), []byte(x.Entries[n].Digest.String())) {
			t.Errorf("%s: got the entry %s", c.name, x.Text(n))
		}
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"manifests":{}}`, `{"manifests":[],"Manifests":[]}`, `{"manifests":[1]}`, `{"manifests":[]`, `{"manifests":[{"digest":"x"}]}`} {
		if _, err := media.ParseIndexText([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestIndexTextReplace(t *testing.T) {
	old := `{"manifests":[{"size": 7, "data":"b2xk", "digest":"sha256:` + strings.Repeat("a", 64) + `","mediaType":"m","x":{"y": 1}}]}`
	x := imagetest.Must[*media.IndexText](t)(media.ParseIndexText([]byte(old)))
	d := v1.Descriptor{Size: 9, Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("b", 64)}, MediaType: types.OCIManifestSchema1}
	if err := x.Replace(0, d); err != nil {
		t.Fatal(err)
	}
	if err := x.Add(d); err != nil {
		t.Fatal(err)
	}
	e := `{"size":9,"digest":"sha256:` + strings.Repeat("b", 64) + `","mediaType":"` + string(types.OCIManifestSchema1) + `","x":{"y": 1}}`
	a := `{"mediaType":"` + string(types.OCIManifestSchema1) + `","size":9,"digest":"sha256:` + strings.Repeat("b", 64) + `"}`
	if got, want := string(x.Bytes()), `{"manifests":[`+e+`,`+a+`]}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestPlatformRank(t *testing.T) {
	amd := func(v string) v1.Platform { return v1.Platform{OS: "linux", Architecture: "amd64", Variant: v} }
	for _, c := range []struct {
		name  string
		want  v1.Platform
		order []v1.Platform // best first, all acceptable
		never []v1.Platform
	}{
		{"amd64", amd(""), []v1.Platform{amd(""), amd("v2"), amd("v3"), amd("v4")},
			[]v1.Platform{{OS: "linux", Architecture: "arm64"}, {OS: "windows", Architecture: "amd64"}, {OS: "unknown", Architecture: "unknown"}, amd("v9")}},
		{"amd64/v3", amd("v3"), []v1.Platform{amd("v3"), amd("v2"), amd("v1")}, []v1.Platform{amd("v4")}},
		{"arm64", v1.Platform{OS: "Linux", Architecture: "aarch64"}, []v1.Platform{{OS: "linux", Architecture: "ARM64", Variant: "v8"}}, []v1.Platform{amd("")}},
		{"arm64/v8", v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}, []v1.Platform{{OS: "linux", Architecture: "arm64", Variant: "v8"}}, []v1.Platform{{OS: "linux", Architecture: "arm64"}, {OS: "linux", Architecture: "arm64", Variant: "v9"}}},
		{"x86-64", v1.Platform{OS: "linux", Architecture: "x86-64"}, []v1.Platform{{OS: "LINUX", Architecture: "X86_64"}}, nil},
		{"x86_64", v1.Platform{OS: "linux", Architecture: "x86_64"}, []v1.Platform{amd("")}, nil},
	} {
		last := media.MaxAMD64Level + 2
		for _, p := range c.order {
			r := media.PlatformRank(p, c.want)
			if r <= 0 || r >= last {
				t.Errorf("%s: %s: got rank %d after %d", c.name, p.String(), r, last)
			}
			last = r
		}
		for _, p := range c.never {
			if r := media.PlatformRank(p, c.want); r != 0 {
				t.Errorf("%s: %s: got rank %d, want 0", c.name, p.String(), r)
			}
		}
	}
}
