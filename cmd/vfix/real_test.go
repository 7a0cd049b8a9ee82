// The JSON of the real engine, over files made here, against docs/schema.json.

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// fixtures are programs with call sites: two that can be patched, one dormant, one finding.
func fixtures(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, name := range []string{"static-2m", "libstubs.so", "golike", "finding-escape"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "tests", "build", "fixtures", name))
		if os.IsNotExist(err) {
			t.Skipf("make fixtures has not been run: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[name] = b
	}
	return all
}

// writeImage makes an OCI layout of one layer with files in it.
func writeImage(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + name, Mode: 0o755, Size: int64(len(content))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		t.Fatal(err)
	}
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "x"})); err != nil {
		t.Fatal(err)
	}
}

// Every verb prints the findings of the real engine as the schema says.
func TestRealJSONMatchesSchema(t *testing.T) {
	files := fixtures(t)
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("root", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join("root", name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeImage(t, "image", files)
	for _, c := range []struct {
		line   string
		status int
		want   string // in the output; behind ": " at its end, any number but 0
	}{
		{"scan dir:root", 3, `"verdict": "dormant"`},
		{"scan --explain root/static-2m root/libstubs.so", 3, `"form": "entry"`},
		{"scan oci:image", 3, `"layer": "sha256:`},
		{"patch --dry-run root", 4, `"dry_run": true`},
		{"patch -o copy root", 4, `"form": "entry"`},
		{"rebuild --fallback never oci:image -o oci:bare:x", 4, `"reference": "oci:bare:x"`},
		{"rebuild --fallback never --dry-run oci:image", 4, `"dry_run": true`},
		{"rebuild --fallback never oci:bare:x -o oci:again:x", 4, `"unchanged": true`},
		{"verify oci:bare:x --against oci:image", 4, `"compared": 3`},
		{"rebuild --fallback always oci:image -o oci:out:x", 0, `"covered": "vfix-trace"`},
		{"rebuild --fallback always --dry-run oci:image", 0, `"entrypoint_wrapped": true`},
		{"rebuild oci:out:x -o oci:again:y", 0, `"unchanged": true`},
		{"verify oci:out:x --against oci:image", 0, `"vfix/vfix-trace"`},
		{"verify oci:out:x", 0, `"covered": "vfix-trace"`},
		{"verify oci:image", 3, `"problems": []`},
	} {
		got := runLine(theEngine, append(strings.Fields(c.line), "--format", "json")...)
		if got.status != c.status || !strings.Contains(got.stdout, c.want) || strings.HasSuffix(c.want, ": ") && strings.Contains(got.stdout, c.want+"0") {
			t.Errorf("vfix %s: got status %d, want %d and %s\n%s%s", c.line, got.status, c.status, c.want, got.stdout, got.stderr)
			continue
		}
		if err := validate(t, got.stdout); err != nil {
			t.Errorf("vfix %s: %#v", c.line, err)
		}
	}
}
