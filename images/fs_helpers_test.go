package images

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/rewriter"
)

// testTime is the mtime of all members made here, with a fraction that only PAX keeps.
var testTime = time.Unix(1300000000, 500_000_000).UTC()

// member is one member of a test archive.
type testMember struct {
	tar.Header
	body []byte
}

func dirM(name string) testMember {
	return testMember{tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, nil}
}

func fileM(name string, body []byte) testMember {
	return testMember{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, body}
}

// legacyM is a file that the rewriter patches; its content tells it from others.
func legacyM(name, text string) testMember {
	m := fileM(name, legacyELF(text))
	m.Mode = 0o755
	return m
}

func linkM(name, target string) testMember {
	return testMember{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o755}, nil}
}

func symM(name, target string) testMember {
	return testMember{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil}
}

// members makes the tar archive of members.
func tarMembers(t testing.TB, all ...testMember) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, m := range all {
		h := m.Header
		h.Size, h.Format = int64(len(m.body)), tar.FormatPAX
		if h.ModTime.IsZero() {
			h.ModTime = testTime
		}
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(m.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bytesLayer is a layer of these bytes, gzip'ed.
func bytesLayer(t testing.TB, plain []byte) v1.Layer {
	t.Helper()
	diffID, _, err := v1.SHA256(bytes.NewReader(plain))
	if err != nil {
		t.Fatal(err)
	}
	return blobLayer{static.NewLayer(gzipOf(t, plain), types.OCILayer), diffID}
}

// stack is an image of layers, the base layer first.
func stack(t testing.TB, layers ...[]testMember) v1.Image {
	t.Helper()
	var ls []v1.Layer
	for _, l := range layers {
		ls = append(ls, bytesLayer(t, tarMembers(t, l...)))
	}
	return imageOf(t, ls...)
}

func imageOf(t testing.TB, layers ...v1.Layer) v1.Image {
	t.Helper()
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	img = must[v1.Image](t)(mutate.AppendLayers(img, layers...))
	cf := must[*v1.ConfigFile](t)(img.ConfigFile()).DeepCopy()
	cf.OS, cf.Architecture = "linux", "amd64"
	cf.Config.Env = []string{"A=<&>"}
	cf.Config.Entrypoint = []string{"/bin/sh"}
	return must[v1.Image](t)(mutate.ConfigFile(img, cf))
}

func testSession(t testing.TB) *session {
	s := newSession(2, nil, rewriter.Options{})
	t.Cleanup(s.Close)
	return s
}

// scanImage examines an image.
func scanImage(t testing.TB, img v1.Image) (*found, *merged, error) {
	t.Helper()
	s := testSession(t)
	tr, err := s.image(context.Background(), img)
	if err != nil {
		return nil, nil, err
	}
	f, err := s.findings(context.Background(), tr)
	return f, tr, err
}

// summary is what a scan found, one word a file: its names and the text that legacyELF
// was made with.
func summary(t testing.TB, f *found) string {
	t.Helper()
	var all []string
	for _, h := range f.hits {
		b := make([]byte, h.size)
		if _, err := h.elf.content.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Join(h.names, "=")+":"+string(b[legacyCode+len(callTime):]))
	}
	return strings.Join(all, " ")
}

// readTar lists the members of an archive with their contents.
func readTar(t testing.TB, r io.Reader) []testMember {
	t.Helper()
	var all []testMember
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, testMember{*h, body})
	}
}

// wantContent fails unless the file holds exactly this.
func wantContent(t testing.TB, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got %d bytes %.200q, want %d bytes %.200q", path, len(got), got, len(want), want)
	}
}

// asRoot skips what only root may do.
func asRoot(t testing.TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("not root: %s", why)
	}
}
