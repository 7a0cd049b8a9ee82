package images_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/internal/imagetest"
)

// verifyBase is an image with a bit of everything.
func verifyBase(t testing.TB) v1.Image {
	return imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.DirM("lib"), imagetest.LegacyM("lib/a", "1"), imagetest.LinkM("lib/b", "lib/a"), imagetest.SymM("l", "lib/a"), imagetest.FileM("etc/x", []byte("x"))},
		[]imagetest.TestMember{imagetest.LegacyM("bin/c", "2")})
}

func TestVerifyRebuilt(t *testing.T) {
	source := imagetest.StoreOCI(t, verifyBase(t))
	dest := "oci:" + t.TempDir() + "/out:x"
	imagetest.RebuildTo(t, source, dest)
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
	good := []imagetest.TestMember{fixed("bin/c", "2"), fixed("lib/a", "1"), imagetest.LinkM("lib/b", "lib/a")}
	for _, tc := range []struct {
		name  string
		layer []imagetest.TestMember
		want  []string
	}{
		{"control", good, nil},
		{"new file", append(good, imagetest.FileM("zz", nil)), []string{"zz: not in the base"}},
		{"missing file", append(good, imagetest.FileM("etc/.wh.x", nil)), []string{"etc/x: missing"}},
		{"other content", append(good, imagetest.FileM("etc/x", []byte("y"))), []string{"etc/x: "}},
		{"same content again", append(good, imagetest.FileM("etc/x", []byte("x"))), nil},
		{"other mode", []imagetest.TestMember{good[0], with(good[1], func(m *imagetest.TestMember) { m.Mode = 0o4755 }), good[2]}, []string{"lib/a: mode: got 04755, want 0755", "lib/b: mode"}},
		{"other owner", append(good[1:], with(good[0], func(m *imagetest.TestMember) { m.Gid = 7 })), []string{"bin/c: owner: got 0:7, want 0:0"}},
		{"other time", append(good[1:], with(good[0], func(m *imagetest.TestMember) { m.ModTime = imagetest.TestTime.Add(1) })), []string{"bin/c: mtime"}},
		{"other xattrs", append(good[1:], with(good[0], func(m *imagetest.TestMember) {
			m.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": imagetest.CapNetRaw}
		})), []string{"bin/c: xattrs: got [security.capability], want []"}},
		{"hard link torn", []imagetest.TestMember{good[0], good[1], fixed("lib/b", "1")}, []string{"lib/b: hard links: got those of lib/b, want those of lib/a"}},
		{"other symlink", append(good, imagetest.SymM("l", "lib/b")), []string{`l: symlink: got "lib/b", want "lib/a"`}},
		{"other kind", append(good, imagetest.FileM(".wh.etc", nil), imagetest.FileM("etc", nil)), []string{"etc: another kind of file", "etc/x: missing"}},
		{"folder's mode", append(good, with(imagetest.DirM("lib"), func(m *imagetest.TestMember) { m.Mode = 0o700 })), []string{"lib: mode: got 0700, want 0755"}},
		{"one more byte changed", append(good[1:], fixed("bin/c", "3")), []string{"bin/c: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			img := imagetest.Must[v1.Image](t)(mutate.Append(base, mutate.Addendum{
				Layer: imagetest.BytesLayer(t, imagetest.TarMembers(t, tc.layer...)), History: v1.History{CreatedBy: "vfix 1.2 rebuild"},
			}))
			imagetest.WantProblems(t, imagetest.Verify(t, imagetest.StoreOCI(t, img), source), tc.want...)
		})
	}
	t.Run("environment", func(t *testing.T) {
		cf := imagetest.Must[*v1.ConfigFile](t)(base.ConfigFile()).DeepCopy()
		cf.Config.Env = []string{"A=1"}
		imagetest.WantProblems(t, imagetest.Verify(t, imagetest.StoreOCI(t, imagetest.Must[v1.Image](t)(mutate.ConfigFile(base, cf))), source), "image config: config: Env: got [A=1], want [A=<&>]")
	})
	t.Run("another base layer", func(t *testing.T) {
		other := imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("x", nil)})
		v := imagetest.Verify(t, imagetest.StoreOCI(t, other), source)
		if len(v.Problems) == 0 || !strings.HasPrefix(v.Problems[0], "image config: history") || !strings.Contains(strings.Join(v.Problems, "\n"), "layer 0: got sha256:") {
			t.Errorf("got problems %q", v.Problems)
		}
	})
}

func TestVerifyFoldersAndTarballs(t *testing.T) {
	dir := imagetest.LegacyFolder(t)
	out := filepath.Join(t.TempDir(), "out")
	imagetest.Patch(t, images.PatchOptions{Output: out}, dir)
	v := imagetest.Verify(t, "dir:"+out, "dir:"+dir)
	imagetest.WantProblems(t, v)
	if v.Compared != 2 || v.Findings.ELFFiles != 3 {
		t.Errorf("got %d compared, %d ELF files", v.Compared, v.Findings.ELFFiles)
	}
	if err := os.Chmod(out+"/bin/c", 0o700); err != nil {
		t.Fatal(err)
	}
	imagetest.Write(t, out+"/text", []byte("other"))
	if err := os.Chtimes(out+"/text", imagetest.Stat(t, dir+"/text").ModTime(), imagetest.Stat(t, dir+"/text").ModTime()); err != nil {
		t.Fatal(err)
	}
	imagetest.WantProblems(t, imagetest.Verify(t, "dir:"+out, "dir:"+dir), "bin/c: mode", "text: ")

	in := imagetest.Write(t, filepath.Join(t.TempDir(), "in.tar"), imagetest.TarMembers(t, imagetest.LegacyM("a", "1"), imagetest.FileM("b", nil)))
	imagetest.Patch(t, images.PatchOptions{Output: in + ".out"}, in)
	v = imagetest.Verify(t, in+".out", in)
	imagetest.WantProblems(t, v)
	if v.Compared != 1 {
		t.Errorf("tarballs: got %d compared, want 1", v.Compared)
	}

	one := filepath.Join(t.TempDir(), "c2")
	imagetest.Patch(t, images.PatchOptions{Output: one}, dir+"/bin/c")
	v = imagetest.Verify(t, one, dir+"/bin/c")
	imagetest.WantProblems(t, v)
	if v.Compared != 1 {
		t.Errorf("single files: got %d compared, want 1", v.Compared)
	}
}
