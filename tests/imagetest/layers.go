// Members, and the layers and images that are made of them.

package imagetest

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/patch"
)

// TestTime is the mtime of all members made here, with a fraction that only PAX keeps.
var TestTime = time.Unix(1300000000, 500_000_000).UTC()

// TestMember is one member of a test archive.
type TestMember struct {
	tar.Header
	Body []byte
}

func DirM(name string) TestMember {
	return TestMember{tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, nil}
}

func FileM(name string, body []byte) TestMember {
	return TestMember{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, body}
}

// LegacyM is a file that the rewriter patches; its content distinguishes it from others.
func LegacyM(name, text string) TestMember {
	m := FileM(name, LegacyELF(text))
	m.Mode = 0o755
	return m
}

func LinkM(name, target string) TestMember {
	return TestMember{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o755}, nil}
}

func SymM(name, target string) TestMember {
	return TestMember{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil}
}

// TarMembers makes the tar archive of members.
func TarMembers(t testing.TB, all ...TestMember) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, m := range all {
		if err := tw.WriteHeader(m.member().Header); err != nil {
			t.Fatal(err)
		}
		tw.Write(m.Body) // Close reports an error
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (m TestMember) member() contents.Member {
	h := m.Header
	h.Size, h.Format = int64(len(m.Body)), tar.FormatPAX
	if h.ModTime.IsZero() {
		h.ModTime = TestTime
	}
	return contents.Member{Header: &h, Content: func() io.Reader { return bytes.NewReader(m.Body) }}
}

// Derived is base with these members in one layer more, with all that a rebuild adds beside
// them: the directories that lead to them, the history entry, labels and annotations.
func Derived(t testing.TB, base v1.Image, fallbackAdded, traced bool, members ...TestMember) v1.Image {
	t.Helper()
	_, tree, err := ScanImage(t, base)
	if err != nil {
		t.Fatal(err)
	}
	w := contents.Members{}
	for _, m := range members {
		name := path.Clean(m.Name)
		w.AddExtras([]contents.Extra{{Name: name}}, tree)
		w[name] = m.member()
	}
	var plain bytes.Buffer
	if err := w.Write(context.Background(), &plain); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"dev.vfix.options": "fallback=always", "dev.vfix.base.name": "base", "dev.vfix.version": "1.2", "dev.vfix.base.digest": Must[v1.Hash](t)(base.Digest()).String()}
	comment := "calls to the vsyscall page rewritten to reach the vDSO"
	if fallbackAdded {
		comment += "; fallback added"
	}
	img := Must[v1.Image](t)(mutate.Append(base, mutate.Addendum{
		Layer: BytesLayer(t, plain.Bytes()), History: v1.History{CreatedBy: "vfix 1.2 rebuild", Comment: comment},
	}))
	cf := Must[*v1.ConfigFile](t)(img.ConfigFile()).DeepCopy()
	cf.Config.Labels = labels
	if traced {
		cf.Config.Entrypoint = append([]string{"/vfix/vfix-trace"}, cf.Config.Entrypoint...)
	}
	return mutate.Annotations(Must[v1.Image](t)(mutate.ConfigFile(img, cf)), labels).(v1.Image)
}

// BytesLayer is a layer of these bytes, gzip'ed.
func BytesLayer(t testing.TB, plain []byte) v1.Layer {
	t.Helper()
	diffID, _, err := v1.SHA256(bytes.NewReader(plain))
	if err != nil {
		t.Fatal(err)
	}
	return BlobLayer{static.NewLayer(GzipOf(t, plain), types.OCILayer), diffID}
}

// Stack is an image of layers, the base layer first.
func Stack(t testing.TB, layers ...[]TestMember) v1.Image {
	t.Helper()
	var ls []v1.Layer
	for _, l := range layers {
		ls = append(ls, BytesLayer(t, TarMembers(t, l...)))
	}
	return ImageOf(t, ls...)
}

func ImageOf(t testing.TB, layers ...v1.Layer) v1.Image {
	t.Helper()
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	img = Must[v1.Image](t)(mutate.AppendLayers(img, layers...))
	cf := Must[*v1.ConfigFile](t)(img.ConfigFile()).DeepCopy()
	cf.OS, cf.Architecture = "linux", "amd64"
	cf.Config.Env = []string{"A=<&>"}
	cf.Config.Entrypoint = []string{"/bin/sh"}
	return Must[v1.Image](t)(mutate.ConfigFile(img, cf))
}

func TestSession(t testing.TB) *contents.Session {
	s := contents.NewSession(2, nil, patch.Options{})
	t.Cleanup(s.Close)
	return s
}

// ScanImage examines an image.
func ScanImage(t testing.TB, img v1.Image) (*contents.Findings, *contents.Tree, error) {
	t.Helper()
	s := TestSession(t)
	tr, err := s.Image(context.Background(), img)
	if err != nil {
		return nil, nil, err
	}
	return tr.Findings(), tr, nil
}

// ReadTar lists the members of an archive with their contents.
func ReadTar(t testing.TB, r io.Reader) []TestMember {
	t.Helper()
	var all []TestMember
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, TestMember{*h, Must[[]byte](t)(io.ReadAll(tr))})
	}
}

// WantContent fails unless the file holds exactly this.
func WantContent(t testing.TB, path string, want []byte) {
	t.Helper()
	if got := Must[[]byte](t)(os.ReadFile(path)); !bytes.Equal(got, want) {
		t.Errorf("%s: got %d bytes %.200q, want %d bytes %.200q", path, len(got), got, len(want), want)
	}
}

// AsRoot skips what only root may do.
func AsRoot(t testing.TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("not root: %s", why)
	}
}
