package images_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/rewriter/find"
	rewriter "vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// verifyBase is an image with a bit of everything.
func verifyBase(t testing.TB) v1.Image {
	return imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.DirM("lib"), imagetest.LegacyM("lib/a", "1"), imagetest.LinkM("lib/b", "lib/a"), imagetest.SymM("l", "lib/a"), imagetest.FileM("etc/x", []byte("x")),
			{Header: tar.Header{Typeflag: tar.TypeChar, Name: "dev/x", Mode: 0o644, Devmajor: 1, Devminor: 3}}},
		[]imagetest.TestMember{imagetest.LegacyM("bin/c", "2")})
}

func TestVerifyRebuilt(t *testing.T) {
	source := imagetest.StoreOCI(t, verifyBase(t))
	dest := "oci:" + t.TempDir() + "/out:x"
	rebuildTo(t, source, dest)
	v := imagetest.Verify(t, dest, source)
	imagetest.WantProblems(t, v)
	if v.Compared != 2 || v.Findings.Sites().Left != 0 || len(v.Findings.Files) != 0 || v.Findings.ELFFiles != 2 {
		t.Errorf("got %d compared, findings %+v", v.Compared, v.Findings)
	}
	// Without a base, the findings alone; the base itself has some.
	if v := imagetest.Verify(t, source, ""); len(v.Findings.Files) != 2 || len(v.Findings.ToPatch()) == 0 || len(v.Problems) != 0 {
		t.Errorf("the base: got %+v", v)
	}
	// The wrong way round.
	if v = imagetest.Verify(t, source, dest); len(v.Problems) < 3 || v.Compared != 0 {
		t.Errorf("the base against the result: got %d compared, problems %q", v.Compared, v.Problems)
	}
}

// The options of the rebuild are in a label, so verify needs none.
func TestVerifyWithOptions(t *testing.T) {
	source := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.LoaderM(), imagetest.LegacyM("lib/a", "1"), imagetest.FileM("libjvm.so", imagetest.JVMLibrary(t))}))
	for n, o := range []images.RebuildOptions{
		{Fallback: "always", ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}},
		{Fallback: "never", ScanOptions: images.ScanOptions{Rewriter: rewriter.Options{Fixes: find.Fixes}}},
	} {
		o.Dest, o.Version = fmt.Sprintf("oci:%s:x", t.TempDir()), "1.2"
		imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), source, o))
		verify := images.VerifyOptions{Against: source, Version: "1.2", ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}}
		v := imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), o.Dest, verify))
		imagetest.WantProblems(t, v)
		if (n == 0) != (len(v.Added) > 2) || len(v.NotCompared) > 0 {
			t.Errorf("%d: got added %q, not compared %q", n, v.Added, v.NotCompared)
		}
		verify.Version = "1.3"
		if v = imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), o.Dest, verify)); len(v.NotCompared) != 1 {
			t.Errorf("another version: got not compared %q", v.NotCompared)
		}
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
	const layer = "image config: rootfs: diff_ids: "
	for _, tc := range []struct {
		name  string
		layer []imagetest.TestMember
		want  []string
	}{
		{"control", good, nil},
		{"new file", more(imagetest.FileM("zz", nil)), []string{layer, "/zz: vfix writes none"}},
		{"missing file", more(imagetest.FileM("etc/.wh.x", nil)), []string{layer, "/etc/x: missing"}},
		{"other content", more(imagetest.FileM("etc/x", []byte("y"))), []string{layer, "/etc/x: file: content: got "}},
		{"another order", []imagetest.TestMember{lib, good[2], good[3], good[0]}, []string{layer}},
		{"other mode", but(0, with(good[0], func(m *imagetest.TestMember) { m.Mode = 0o4755 })), []string{layer, `/bin/c: file: mode: got "04755", want "0755"`}},
		{"other owner", but(0, with(good[0], func(m *imagetest.TestMember) { m.Gid = 7 })), []string{layer, `/bin/c: file: owner: got "0:7", want "0:0"`}},
		{"other time", but(0, with(good[0], func(m *imagetest.TestMember) { m.ModTime = imagetest.TestTime.Add(1) })), []string{layer, "/bin/c: file: mtime: got "}},
		{"other xattr", but(0, with(good[0], func(m *imagetest.TestMember) { m.PAXRecords = map[string]string{blob.XattrPrefix + "user.a": "1"} })), []string{layer, "/bin/c: file: user.a: vfix writes none"}},
		{"other device", more(with(imagetest.FileM("dev/x", nil), func(m *imagetest.TestMember) { m.Typeflag, m.Devmajor, m.Devminor = tar.TypeChar, 1, 4 })), []string{layer, `/dev/x: device: number: got "1:4", want "1:3"`}},
		{"hard link torn", but(3, fixed("lib/b", "1")), []string{layer, "/lib/b: file: vfix writes none", "/lib/b: hard link: missing"}},
		{"other symlink", more(imagetest.SymM("l", "lib/b")), []string{layer, `/l: symlink: to: got "lib/b", want "lib/a"`}},
		{"other program", but(0, fixed("bin/c", "3")), []string{layer, "/bin/c: file: content: got "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			added := imagetest.Must[*blob.PackedLayer](t)(blob.PackLayer(1, func(w io.Writer) error {
				_, err := w.Write(imagetest.TarMembers(t, tc.layer...))
				return err
			}))
			defer added.Close()
			img := imagetest.Must[v1.Image](t)(images.WithLayer(base, added))
			imagetest.WantProblems(t, imagetest.Verify(t, imagetest.StoreOCI(t, img), source), tc.want...)
		})
	}
	t.Run("environment", func(t *testing.T) {
		cf := imagetest.Must[*v1.ConfigFile](t)(base.ConfigFile()).DeepCopy()
		cf.Config.Env = []string{"A=1"}
		img := imagetest.Must[v1.Image](t)(mutate.ConfigFile(base, cf))
		v := imagetest.Verify(t, imagetest.StoreOCI(t, img), source)
		if text := strings.Join(v.Problems, "\n"); !strings.Contains(text, `image config: config: Env: got ["A=1"], want ["A=\u003c\u0026\u003e"]`) {
			t.Errorf("got %q", v.Problems)
		}
	})
	t.Run("many", func(t *testing.T) {
		var all []imagetest.TestMember
		for n := range 50 {
			all = append(all, imagetest.FileM(fmt.Sprintf("x%02d", n), nil))
		}
		added := imagetest.Must[*blob.PackedLayer](t)(blob.PackLayer(1, func(w io.Writer) error {
			_, err := w.Write(imagetest.TarMembers(t, more(all...)...))
			return err
		}))
		defer added.Close()
		v := imagetest.Verify(t, imagetest.StoreOCI(t, imagetest.Must[v1.Image](t)(images.WithLayer(base, added))), source)
		if len(v.Problems) != 20 || v.More != 31 {
			t.Errorf("got %d problems and %d more", len(v.Problems), v.More)
		}
	})
}

func TestVerifyDirsAndTarballs(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	out := filepath.Join(t.TempDir(), "out")
	imagetest.Patch(t, patch.Options{Output: out}, dir)
	var notes imagetest.Notes
	options := images.VerifyOptions{Against: "dir:" + dir, ScanOptions: images.ScanOptions{Media: source.Options{Progress: &notes}}}
	v := imagetest.Must[*images.Verified](t)(images.Verify(t.Context(), "dir:"+out, options))
	if len(notes.Text) > 0 { // an image is made only by a rebuild, and only if it is not written to a directory
		t.Errorf("verify notes %q", notes.Text)
	}
	for dest, want := range map[string]int{"oci:" + t.TempDir() + "/l": 1, "dir:" + t.TempDir(): 0} {
		notes.Text = nil
		imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), "dir:"+dir, images.RebuildOptions{Dest: dest, ScanOptions: options.ScanOptions}))
		if got := strings.Join(notes.Text, "\n"); strings.Count(got, "becomes an image with one layer") != want {
			t.Errorf("%s: got notes %q", dest, got)
		}
	}
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
	imagetest.WantProblems(t, imagetest.Verify(t, "dir:"+out, "dir:"+dir), "/bin/c: file: mode", "/text: file: content")
	imagetest.Write(t, out+"/more", []byte("m"))
	if err := errors.Join(os.Remove(out+"/text"), os.Symlink("more", out+"/text")); err != nil {
		t.Fatal(err)
	}
	imagetest.WantProblems(t, imagetest.Verify(t, "dir:"+out, "dir:"+dir),
		"/: directory: mtime", "/bin/c: file: mode", "/more: vfix writes none", "/text: file: missing", "/text: symlink: vfix writes none")

	in := imagetest.Write(t, filepath.Join(t.TempDir(), "in.tar"), imagetest.TarMembers(t, imagetest.LegacyM("a", "1"), imagetest.FileM("b", nil)))
	imagetest.Patch(t, patch.Options{Output: in + ".out"}, in)
	one := filepath.Join(t.TempDir(), "c2")
	imagetest.Patch(t, patch.Options{Output: one}, dir+"/bin/c")
	for _, pair := range [][2]string{{in + ".out", in}, {one, dir + "/bin/c"}} {
		v = imagetest.Verify(t, pair[0], pair[1])
		imagetest.WantProblems(t, v)
		if v.Compared != 1 {
			t.Errorf("%s: got %d compared, want 1", pair[0], v.Compared)
		}
		if v = imagetest.Verify(t, pair[1], pair[1]); len(v.Problems) == 0 || v.Compared != 0 {
			t.Errorf("unpatched: got %+v", v)
		}
	}
}
