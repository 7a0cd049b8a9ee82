package source_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"vfix.dev/vfix/images/source"
)

func oldID(n int) string { return fmt.Sprintf("%064x", n+1) }

// oldJSON is the image JSON of layer n of a chain; members begins with a comma.
func oldJSON(n int, members string) string {
	if n > 0 {
		members += `,"parent":"` + oldID(n-1) + `"`
	}
	return `{"id":"` + oldID(n) + `"` + members + `}`
}

// oldMembers are those of the layers of a chain, of which the last adds no file.
var oldMembers = []string{
	`,"created":"2014-01-01T00:00:00Z","author":"me","container_config":{"Cmd":["/bin/sh","-c","base"]}`,
	`,"container_config":{"Cmd":["one word"]}`,
	`,"config":{"Cmd":["/bin/true"],"Entrypoint":null,"Env":["A=<b>"]},"os":"linux","Size":7,"docker_version":"1.6.0"`,
}

// checkOld compares the image of a chain with what docker makes of it.
func checkOld(t *testing.T, name string, img v1.Image) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lay")
	put(t, "oci:"+dir, source.Result{Image: img}, fast)
	if err := validate.Image(open(t, dir, fast).Image); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	cf := must(img.ConfigFile())(t)
	if got := fmt.Sprint(cf.Architecture, cf.OS, cf.Config.Env, cf.Config.Cmd, cf.Config.Entrypoint, len(cf.RootFS.DiffIDs)); got != "amd64linux[A=<b>] [/bin/true] [] 2" {
		t.Errorf("%s: got %s", name, got)
	}
	var history []string
	for _, h := range cf.History {
		history = append(history, fmt.Sprintf("%s,%s,%v", h.CreatedBy, h.Author, h.EmptyLayer))
	}
	if got := strings.Join(history, "|"); got != "/bin/sh -c base,me,false|one word,,false|,,true" {
		t.Errorf("%s: got the history %s", name, got)
	}
}

// The archives of docker save before 1.10 are read by name, by ID, and if they have no list of names.
func TestV1Archive(t *testing.T) {
	noEngine(t)
	plain := [][]byte{tarOf(t, "etc/base", "one"), tarOf(t, "etc/top", "two"), make([]byte, 1024)}
	var files []string
	for n, b := range plain {
		files = append(files, oldID(n)+"/", "", oldID(n)+"/VERSION", "1.0", oldID(n)+"/json", oldJSON(n, oldMembers[n]), oldID(n)+"/layer.tar", string(b))
	}
	list := []string{"repositories", `{"redis":{"2.8":"` + oldID(2) + `"}}`}
	write := func(files []string) string {
		path := filepath.Join(t.TempDir(), "old.tar")
		if err := os.WriteFile(path, tarOf(t, files...), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	named, bare := write(append(list, files...)), write(files)
	for _, name := range []string{named, "docker-archive:" + named + ":redis:2.8", "docker-archive:" + bare, "docker-archive:" + bare + ":" + oldID(2)[:12] + oldID(2)[12:]} {
		src := open(t, name, fast)
		checkOld(t, name, src.Image)
	}
	files[len(files)-3] = strings.Replace(files[len(files)-3], oldID(1), oldID(2), 1)
	if _, err := source.Open(t.Context(), write(append(list, files...)), fast); err == nil || !strings.Contains(err.Error(), "or it is above itself") {
		t.Errorf("a layer that is its own parent: got %v", err)
	}
}

// A manifest of schema 1 is read from a registry, with and without signatures; its digest is that of the text without.
func TestSchema1(t *testing.T) {
	noEngine(t)
	blobs := map[string][]byte{}
	type fsLayer struct {
		BlobSum string `json:"blobSum"`
	}
	type history struct {
		V1 string `json:"v1Compatibility"`
	}
	m := struct {
		SchemaVersion int       `json:"schemaVersion"`
		Architecture  string    `json:"architecture"`
		FSLayers      []fsLayer `json:"fsLayers"`
		History       []history `json:"history"`
	}{SchemaVersion: 1, Architecture: "amd64"}
	for n, b := range [][]byte{make([]byte, 1024), tarOf(t, "etc/top", "two"), tarOf(t, "etc/base", "one")} {
		h, _, _ := v1.SHA256(bytes.NewReader(gz(b)))
		blobs[h.String()] = gz(b)
		m.FSLayers = append(m.FSLayers, fsLayer{h.String()})
		m.History = append(m.History, history{oldJSON(2-n, oldMembers[2-n])})
	}
	text := must(json.MarshalIndent(m, "", "   "))(t)
	digest, _, _ := v1.SHA256(bytes.NewReader(text))
	enc := base64.RawURLEncoding.EncodeToString
	cut := len(text) - len("\n}")
	protected := enc([]byte(fmt.Sprintf(`{"formatLength":%d,"formatTail":%q}`, cut, enc(text[cut:]))))
	signed := string(text[:cut]) + `,"signatures":[{"header":{},"signature":"AA","protected":"` + protected + `"}]` + string(text[cut:])
	var manifest string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, d, _ := strings.Cut(r.URL.Path, "/blobs/")
		switch {
		case r.URL.Path == "/v2/":
		case blobs[d] != nil:
			w.Write(blobs[d])
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v1+prettyjws")
			w.Header().Set("Docker-Content-Digest", digest.String())
			fmt.Fprint(w, manifest)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	name := "docker://" + strings.TrimPrefix(s.URL, "http://") + "/old"
	for _, manifest = range []string{string(text), signed} {
		for _, n := range []string{name + ":1", name + "@" + digest.String()} {
			src := open(t, n, fast)
			checkOld(t, n, src.Image)
			if src.Digest != digest.String() || !src.Schema1 {
				t.Errorf("%s: got %s, want %v", n, src.Digest, digest)
			}
		}
	}
	manifest = strings.Replace(signed, "one word", "one w0rd", 1)
	if _, err := source.Open(t.Context(), name+"@"+digest.String(), fast); err == nil || !strings.Contains(err.Error(), "with the digest") {
		t.Errorf("a changed manifest: got %v", err)
	}
}
