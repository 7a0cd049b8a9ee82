package images

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestReplaceInIndex(t *testing.T) {
	idx := tinyIndex(t)
	d, _, err := pick(idx, v1.Platform{OS: "linux", Architecture: "amd64"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	fresh := platformImage(t, "amd64", "derived")
	out := ReplaceInIndex(idx, d, fresh)
	raw := must[[]byte](t)(out.RawManifest())
	if !json.Valid(raw) {
		t.Fatalf("not JSON: %s", raw)
	}
	m := must[*v1.IndexManifest](t)(out.IndexManifest())
	if len(m.Manifests) != 2 {
		t.Fatalf("got %d entries, want 2 without the attestation", len(m.Manifests))
	}
	e := m.Manifests[1]
	if e.Digest != must[v1.Hash](t)(fresh.Digest()) || e.Size != must[int64](t)(fresh.Size()) ||
		e.Platform.Architecture != "amd64" || e.Annotations["kept"] != "yes" {
		t.Errorf("replaced entry: %+v", e)
	}
	before := must[*indexText](t)(parseIndexText(must[[]byte](t)(idx.RawManifest())))
	after := must[*indexText](t)(parseIndexText(raw))
	if !bytes.Equal(before.texts[0], after.texts[0]) || !bytes.Contains(after.texts[0], []byte(`"variant":   "v8"`)) {
		t.Errorf("the other entry changed:\n%s\nwas\n%s", after.texts[0], before.texts[0])
	}
	if err := validate.Index(out); err != nil {
		t.Error(err)
	}
	again := ReplaceInIndex(idx, d, fresh)
	if !bytes.Equal(raw, must[[]byte](t)(again.RawManifest())) {
		t.Error("the same replacement gave other bytes")
	}
}

func TestReplaceInNestedIndex(t *testing.T) {
	inner := tinyIndex(t)
	outer := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: platformImage(t, "s390x", "other")},
		mutate.IndexAddendum{Add: inner, Descriptor: v1.Descriptor{Annotations: map[string]string{"in": "yes"}}})
	want := v1.Platform{OS: "linux", Architecture: "amd64"}
	d, _, err := pick(outer, want, maxNesting)
	if err != nil {
		t.Fatal(err)
	}
	fresh := platformImage(t, "amd64", "derived")
	out := ReplaceInIndex(outer, d, fresh)
	if err := validate.Index(out); err != nil {
		t.Error(err)
	}
	_, img, err := pick(out, want, maxNesting)
	if err != nil {
		t.Fatal(err)
	}
	sameImage(t, img, fresh)
	m := must[*v1.IndexManifest](t)(out.IndexManifest())
	if m.Manifests[1].Annotations["in"] != "yes" {
		t.Errorf("entry of the inner index: %+v", m.Manifests[1])
	}
	n := &notes{}
	noteDropped(out, n)
	if len(n.text) != 1 {
		t.Errorf("notes: %q", n.text)
	}
}

func TestReplaceMissing(t *testing.T) {
	_, err := ReplaceInIndex(tinyIndex(t), v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}}, tinyImage(t)).RawManifest()
	wantErr(t, err, ErrNotFound, "sha256:0000")
}

func TestIndexText(t *testing.T) {
	h := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	entry := func(c string) string { return `{"digest":"` + h(c) + `","size":1,"mediaType":"m"}` }
	for _, c := range []struct {
		name, in, want string
		drop           []int
	}{
		{"none", `{"manifests": [ ` + entry("a") + ` , ` + entry("b") + ` ] }`, `{"manifests": [ ` + entry("a") + ` , ` + entry("b") + ` ] }`, nil},
		{"first", `{"manifests":[ ` + entry("a") + ` , ` + entry("b") + ` ],"z":1}`, `{"manifests":[  ` + entry("b") + ` ],"z":1}`, []int{0}},
		{"last", `{"manifests":[` + entry("a") + `,` + entry("b") + `]}`, `{"manifests":[` + entry("a") + `]}`, []int{1}},
		{"middle", `{"manifests":[` + entry("a") + `,` + entry("b") + `,` + entry("c") + `]}`, `{"manifests":[` + entry("a") + `,` + entry("c") + `]}`, []int{1}},
		{"all", `{"manifests":[` + entry("a") + `]}`, `{"manifests":[]}`, []int{0}},
	} {
		x, err := parseIndexText([]byte(c.in))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, n := range c.drop {
			x.drop(n)
		}
		if got := string(x.bytes()); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"manifests":{}}`, `{"manifests":[],"Manifests":[]}`, `{"manifests":[1]}`, `{"manifests":[]`, `{"manifests":[{"digest":"x"}]}`} {
		if _, err := parseIndexText([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestIndexTextReplace(t *testing.T) {
	old := `{"manifests":[{"size": 7, "data":"b2xk", "digest":"sha256:` + strings.Repeat("a", 64) + `","mediaType":"m","x":{"y": 1}}]}`
	x := must[*indexText](t)(parseIndexText([]byte(old)))
	d := v1.Descriptor{Size: 9, Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("b", 64)}, MediaType: types.OCIManifestSchema1}
	if err := x.replace(0, d); err != nil {
		t.Fatal(err)
	}
	if err := x.add(d); err != nil {
		t.Fatal(err)
	}
	e := `{"size":9,"digest":"sha256:` + strings.Repeat("b", 64) + `","mediaType":"` + string(types.OCIManifestSchema1) + `","x":{"y": 1}}`
	a := `{"mediaType":"` + string(types.OCIManifestSchema1) + `","size":9,"digest":"sha256:` + strings.Repeat("b", 64) + `"}`
	if got, want := string(x.bytes()), `{"manifests":[`+e+`,`+a+`]}`; got != want {
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
		{"x86_64", v1.Platform{OS: "linux", Architecture: "x86_64"}, []v1.Platform{amd("")}, nil},
	} {
		last := maxAMD64Level + 2
		for _, p := range c.order {
			r := platformRank(p, c.want)
			if r <= 0 || r >= last {
				t.Errorf("%s: %s: got rank %d after %d", c.name, p.String(), r, last)
			}
			last = r
		}
		for _, p := range c.never {
			if r := platformRank(p, c.want); r != 0 {
				t.Errorf("%s: %s: got rank %d, want 0", c.name, p.String(), r)
			}
		}
	}
}
