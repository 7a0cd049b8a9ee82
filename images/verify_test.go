package images_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// verifyBase is an image with a bit of everything.
func verifyBase(t testing.TB) v1.Image { return imagetest.Stack(t, verifyLayers...) }

var verifyLayers = [][]imagetest.TestMember{
	{imagetest.DirM("lib"), imagetest.LegacyM("lib/a", "1"), imagetest.LinkM("lib/b", "lib/a"), imagetest.SymM("l", "lib/a"), imagetest.FileM("etc/x", []byte("x"))},
	{imagetest.LegacyM("bin/c", "2")},
}

func TestVerifyRebuilt(t *testing.T) {
	source := imagetest.StoreOCI(t, verifyBase(t))
	dest := "oci:" + t.TempDir() + "/out:x"
	rebuildTo(t, source, dest)
	v := imagetest.Verify(t, dest, source)
	imagetest.WantProblems(t, v)
	if v.Compared != 2 || v.Findings.LeftOver() != 0 || len(v.Findings.Files) != 0 || v.Findings.ELFFiles != 2 {
		t.Errorf("got %d compared, findings %+v", v.Compared, v.Findings)
	}
	// Without a base, the findings alone; the base itself has some.
	if v := imagetest.Verify(t, source, ""); len(v.Findings.Files) != 2 || !v.Findings.Affected() || len(v.Problems) != 0 {
		t.Errorf("the base: got %+v", v)
	}
	// The wrong way round.
	v = imagetest.Verify(t, source, dest)
	if len(v.Problems) < 3 || v.Compared != 0 {
		t.Errorf("the base against the result: got %d compared, problems %q", v.Compared, v.Problems)
	}
}

// TestVerifyFinds: each is one thing that a derived image must not have changed.
func TestVerifyFinds(t *testing.T) {
	base := verifyBase(t)
	source := imagetest.StoreOCI(t, base)
	fixed := func(name, text string) imagetest.TestMember {
		m := imagetest.FileM(name, imagetest.FixedELF(text))
		m.Mode = 0o755
		return m
	}
	with := func(m imagetest.TestMember, change func(*imagetest.TestMember)) imagetest.TestMember {
		change(&m)
		return m
	}
	lib := imagetest.DirM("lib")
	good := []imagetest.TestMember{fixed("bin/c", "2"), lib, fixed("lib/a", "1"), imagetest.LinkM("lib/b", "lib/a")}
	but := func(n int, m imagetest.TestMember) []imagetest.TestMember { // m in the place of the nth
		return append(append(append([]imagetest.TestMember{}, good[:n]...), m), good[n+1:]...)
	}
	more := func(m ...imagetest.TestMember) []imagetest.TestMember {
		return append(append([]imagetest.TestMember{}, good...), m...)
	}
	for _, tc := range []struct {
		name  string
		layer []imagetest.TestMember
		want  []string
	}{
		{"control", good, nil},
		{"new file", more(imagetest.FileM("zz", nil)), []string{"added layer: zz: a rebuild adds no such file"}},
		{"missing file", more(imagetest.FileM("etc/.wh.x", nil)), []string{"etc/x: missing: the added layer removes it"}},
		{"other content", more(imagetest.FileM("etc/x", []byte("y"))), []string{"added layer: etc/x: a rebuild adds no such file"}},
		{"same content again", more(imagetest.FileM("etc/x", []byte("x"))), []string{"added layer: etc/x: a rebuild adds no such file"}},
		{"another order", []imagetest.TestMember{lib, good[2], good[3], good[0]}, []string{"another order of members"}},
		{"a directory left out", append([]imagetest.TestMember{good[0]}, good[2:]...), []string{"added layer: lib: missing"}},
		{"other mode", but(2, with(good[2], func(m *imagetest.TestMember) { m.Mode = 0o4755 })), []string{"added layer: lib/a: mode: got 04755, want 0755"}},
		{"a link's mode", but(3, with(good[3], func(m *imagetest.TestMember) { m.Mode = 0o4755 })), []string{"added layer: lib/b: mode: got 04755, want 0755"}},
		{"a link's owner", but(3, with(good[3], func(m *imagetest.TestMember) { m.Uid = 1 })), []string{"added layer: lib/b: owner: got 1:0, want 0:0"}},
		{"other owner", but(0, with(good[0], func(m *imagetest.TestMember) { m.Gid = 7 })), []string{"bin/c: owner: got 0:7, want 0:0"}},
		{"other time", but(0, with(good[0], func(m *imagetest.TestMember) { m.ModTime = imagetest.TestTime.Add(1) })), []string{"bin/c: mtime"}},
		{"other xattrs", but(0, with(good[0], func(m *imagetest.TestMember) {
			m.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": imagetest.CapNetRaw}
		})), []string{"bin/c: xattrs: got [security.capability], want []"}},
		{"hard link torn", but(3, fixed("lib/b", "1")), []string{"added layer: lib/b: another kind of file"}},
		{"other symlink", more(imagetest.SymM("l", "lib/b")), []string{"added layer: l: a rebuild adds no such file"}},
		{"other kind", more(imagetest.FileM(".wh.etc", nil), imagetest.FileM("etc", nil)), []string{"etc: missing: the added layer removes it"}},
		{"directory's mode", but(1, with(lib, func(m *imagetest.TestMember) { m.Mode = 0o700 })), []string{"lib: mode: got 0700, want 0755"}},
		{"the root directory", append([]imagetest.TestMember{with(imagetest.DirM("."), func(m *imagetest.TestMember) { m.Uid = 5 })}, good...), []string{"added layer: the root directory: a rebuild adds no such file"}},
		{"one more byte changed", but(0, fixed("bin/c", "3")), []string{"bin/c: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			added := imagetest.Must[*contents.AddedLayer](t)(contents.PackLayer(func(w io.Writer) error {
				_, err := w.Write(imagetest.TarMembers(t, tc.layer...))
				return err
			}))
			defer added.Close()
			img, err := images.Derive(base, true, added, images.Derivation{BaseName: "n", BaseDigest: imagetest.Must[v1.Hash](t)(base.Digest()).String(), Version: "1.2"})
			if err != nil {
				t.Fatal(err)
			}
			imagetest.WantProblems(t, imagetest.Verify(t, imagetest.StoreOCI(t, img), source), tc.want...)
		})
	}
	t.Run("environment", func(t *testing.T) {
		cf := imagetest.Must[*v1.ConfigFile](t)(base.ConfigFile()).DeepCopy()
		cf.Config.Env = []string{"A=1"}
		imagetest.WantProblems(t, imagetest.Verify(t, imagetest.StoreOCI(t, imagetest.Must[v1.Image](t)(mutate.ConfigFile(base, cf))), source), "added layer: missing, want sha256:", `image config: config: Env: got ["A=1"], want ["A=\u003c\u0026\u003e"]`)
	})
	t.Run("another base layer", func(t *testing.T) {
		other := imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("x", nil)})
		v := imagetest.Verify(t, imagetest.StoreOCI(t, other), source)
		all := strings.Join(v.Problems, "\n")
		if !strings.Contains(all, "image config: history") || !strings.HasPrefix(all, "layer 0: got sha256:") {
			t.Errorf("got problems %q", v.Problems)
		}
	})
	t.Run("two layers more", func(t *testing.T) {
		img := imagetest.Must[v1.Image](t)(mutate.AppendLayers(base, imagetest.BytesLayer(t, imagetest.TarMembers(t, good...)), imagetest.BytesLayer(t, imagetest.TarMembers(t))))
		if v := imagetest.Verify(t, imagetest.StoreOCI(t, img), source); len(v.Problems) == 0 || v.Problems[0] != "got 4 layers, want the 2 of the base and one more" {
			t.Errorf("got problems %q", v.Problems)
		}
	})
}

func TestVerifyDirsAndTarballs(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	out := filepath.Join(t.TempDir(), "out")
	imagetest.Patch(t, patch.Options{Output: out}, dir)
	v := imagetest.Verify(t, "dir:"+out, "dir:"+dir)
	imagetest.WantProblems(t, v)
	if v.Compared != 2 || v.Findings.ELFFiles != 3 || len(v.NotCompared) > 0 {
		t.Errorf("got %d compared, %d ELF files, not compared %q", v.Compared, v.Findings.ELFFiles, v.NotCompared)
	}
	if err := os.Chmod(out+"/bin/c", 0o700); err != nil {
		t.Fatal(err)
	}
	imagetest.Write(t, out+"/text", []byte("other"))
	if err := os.Chtimes(out+"/text", imagetest.Stat(t, dir+"/text").ModTime(), imagetest.Stat(t, dir+"/text").ModTime()); err != nil {
		t.Fatal(err)
	}
	imagetest.WantProblems(t, imagetest.Verify(t, "dir:"+out, "dir:"+dir), "bin/c: mode", "text: ")
	for _, name := range []string{"more", "moved"} {
		imagetest.Write(t, out+"/"+name, []byte("m"))
	}
	if err := errors.Join(os.Remove(out+"/text"), os.Symlink("more", out+"/text"), os.Remove(out+"/moved"), os.Symlink("more", out+"/moved"), os.Rename(out+"/b", out+"/d")); err != nil {
		t.Fatal(err)
	}
	imagetest.WantProblems(t, imagetest.Verify(t, "dir:"+out, "dir:"+dir),
		"the root directory: mtime", "b: missing", "bin/c: mode", "d: a rebuild adds no such file", `lib/a: link: got "d", want "b"`,
		"more: a rebuild adds no such file", "moved: a rebuild adds no such file", "text: another kind of file")

	in := imagetest.Write(t, filepath.Join(t.TempDir(), "in.tar"), imagetest.TarMembers(t, imagetest.LegacyM("a", "1"), imagetest.FileM("b", nil)))
	imagetest.Patch(t, patch.Options{Output: in + ".out"}, in)
	v = imagetest.Verify(t, in+".out", in)
	imagetest.WantProblems(t, v)
	if v.Compared != 1 {
		t.Errorf("tarballs: got %d compared, want 1", v.Compared)
	}
	for name, more := range map[string][]byte{"another owner's name": nil, "another archive": imagetest.TarMembers(t, imagetest.FileM("b", []byte("other")))} {
		out := imagetest.Must[[]byte](t)(os.ReadFile(in + ".out"))
		if out = append(out, more...); more == nil {
			r := imagetest.ReadTar(t, bytes.NewReader(out))
			r[1].Header.Uname = "other"
			out = imagetest.TarMembers(t, r...)
		}
		v = imagetest.Verify(t, imagetest.Write(t, in+".changed", out), in)
		imagetest.WantProblems(t, v)
		if len(v.NotCompared) != 1 || !strings.Contains(v.NotCompared[0], "vfix patch writes another archive") {
			t.Errorf("%s: not compared: %q", name, v.NotCompared)
		}
	}

	one := filepath.Join(t.TempDir(), "c2")
	imagetest.Patch(t, patch.Options{Output: one}, dir+"/bin/c")
	v = imagetest.Verify(t, one, dir+"/bin/c")
	imagetest.WantProblems(t, v)
	if v.Compared != 1 {
		t.Errorf("single files: got %d compared, want 1", v.Compared)
	}
}
