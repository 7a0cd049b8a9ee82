package schema1

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// oldLayers reads image JSONs of layers that add no file.
func oldLayers(t *testing.T, members ...string) (chain []OldLayer) {
	t.Helper()
	for n, m := range members {
		l, err := NewOldLayer(fmt.Appendf(nil, `{"id":"%064x","throwaway":true%s}`, n+1, m))
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, l)
	}
	return chain
}

// The config of an old image: members of its topmost layer, a history of all, and a platform.
func TestOldConfig(t *testing.T) {
	const rootfs = `"rootfs":{"diff_ids":[],"type":"layers"}`
	const platform = `"architecture":"amd64",`
	for _, c := range []struct {
		members            []string
		architecture, want string // "" for an error
	}{
		{[]string{``}, "", `{"architecture":"amd64","history":[{"empty_layer":true}],"os":"linux",` + rootfs + `}`},
		{[]string{`,"architecture":"","os":null`}, "arm", `{"architecture":"arm","history":[{"empty_layer":true}],"os":"linux",` + rootfs + `}`},
		{[]string{`,"architecture":null,"os":""`}, "arm", `{"architecture":"arm","history":[{"empty_layer":true}],"os":"linux",` + rootfs + `}`},
		{[]string{`,"architecture":"s390x","os":"plan9"`}, "arm", `{"architecture":"s390x","history":[{"empty_layer":true}],"os":"plan9",` + rootfs + `}`},
		{[]string{`,"config":{"User":"below"}`, `,"Size":7,"parent_id":"x","layer_id":"y","layer":1,"x":2`}, "", `{` + platform + `"history":[{"empty_layer":true},{"empty_layer":true}],"os":"linux",` + rootfs + `,"x":2}`},
		{[]string{`,"config":null,"container_config":{"Cmd":"word","Entrypoint":"entry"}`}, "",
			`{` + platform + `"config":null,"container_config":{"Cmd":["word"],"Entrypoint":["entry"]},"history":[{"created_by":"word","empty_layer":true}],"os":"linux",` + rootfs + `}`},
		{[]string{`,"config":{"Cmd":"","Entrypoint":["a","b"]}`}, "", `{` + platform + `"config":{"Cmd":null,"Entrypoint":["a","b"]},"history":[{"empty_layer":true}],"os":"linux",` + rootfs + `}`},
		{[]string{`,"created":null,"author":"","comment":"c"`, `,"created":"2014-01-01T00:00:00Z","author":"me","container_config":{"Cmd":["a","b"]}`}, "",
			`{` + platform + `"author":"me","container_config":{"Cmd":["a","b"]},"created":"2014-01-01T00:00:00Z","history":[{"comment":"c","empty_layer":true},` +
				`{"author":"me","created":"2014-01-01T00:00:00Z","created_by":"a b","empty_layer":true}],"os":"linux",` + rootfs + `}`},
		{[]string{`,"config":7`}, "", ""},
		{nil, "", ""},
	} {
		img, err := OldImage(oldLayers(t, c.members...), c.architecture, nil)
		if err != nil || c.want == "" {
			if (err == nil) != (c.want != "") {
				t.Errorf("%q: got %v, want %s", c.members, err, c.want)
			}
			continue
		}
		if got, err := img.RawConfigFile(); err != nil || string(got) != c.want {
			t.Errorf("%q: got %s, %v, want %s", c.members, got, err, c.want)
		}
	}
	for _, members := range []string{`"container_config":{"Cmd":7}`, `"container_config":{"Cmd":[7]}`} {
		if _, err := NewOldLayer(fmt.Appendf(nil, `{"id":"%064x",%s}`, 1, members)); err == nil {
			t.Errorf("%s: no error", members)
		}
	}
}

func TestLooksLikeSchema1(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"schemaVersion":1,"fsLayers":[]}`: true, `{"schemaVersion":2,"fsLayers":[]}`: false, `{"schemaVersion":1}`: false, `[`: false,
	} {
		if got := LooksSchema1([]byte(raw)); got != want {
			t.Errorf("%s: got %v", raw, got)
		}
	}
	for mt, want := range map[types.MediaType]bool{types.DockerManifestSchema1: true, types.DockerManifestSchema1Signed: true, types.DockerManifestSchema2: false} {
		if got := IsSchema1(mt); got != want {
			t.Errorf("%s: got %v", mt, got)
		}
	}
}

// Each digest is listed once, and damaged ones are left out.
func TestBlobs(t *testing.T) {
	a, b := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	m := &Manifest{}
	for _, sum := range []string{a, b, "sha256:x", a} {
		m.FSLayers = append(m.FSLayers, struct {
			BlobSum string `json:"blobSum"`
		}{sum})
	}
	if got := fmt.Sprint(m.Blobs()); got != "["+a+" "+b+"]" {
		t.Errorf("got %s", got)
	}
}

// The signed text is the beginning of the manifest, and a tail.
func TestSignedText(t *testing.T) {
	const raw = `{"a":1}`
	for protected, want := range map[string]string{
		`{"formatLength":1,"formatTail":"fQ"}`: `{}`, `{"formatLength":7,"formatTail":"fQ"}`: raw + `}`, `{"formatLength":6,"formatTail":"fQ=="}`: raw,
		`{"formatLength":0,"formatTail":"fQ"}`: "", `{"formatLength":8,"formatTail":"fQ"}`: "", `{"formatLength":-1,"formatTail":"fQ"}`: "",
		`{"formatLength":1,"formatTail":"?"}`: "", `{`: "",
	} {
		for _, encoding := range []*base64.Encoding{base64.RawURLEncoding, base64.URLEncoding} {
			got, err := prettySignature{Protected: encoding.EncodeToString([]byte(protected))}.payload([]byte(raw))
			if string(got) != want || (err == nil) != (want != "") {
				t.Errorf("%s: got %q, %v, want %q", protected, got, err, want)
			}
		}
	}
	if _, err := (prettySignature{Protected: "?"}).payload([]byte(raw)); err == nil {
		t.Error("not base64: no error")
	}
}
