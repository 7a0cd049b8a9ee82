package images

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// capNetRaw is the xattr security.capability for cap_net_raw+ep: revision 2, effective,
// permitted bit 13 (linux/capability.h, struct vfs_cap_data).
const capNetRaw = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func verify(t testing.TB, source, against string) *Verified {
	t.Helper()
	v, err := Verify(context.Background(), source, VerifyOptions{Against: against})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// wantProblems fails unless there is one problem for each of want, which it contains.
func wantProblems(t testing.TB, v *Verified, want ...string) {
	t.Helper()
	if len(v.Problems) != len(want) {
		t.Errorf("got problems\n%s\nwant %d with %q", strings.Join(v.Problems, "\n"), len(want), want)
		return
	}
	for i, w := range want {
		if !strings.Contains(v.Problems[i], w) {
			t.Errorf("got problem %q, want one with %q", v.Problems[i], w)
		}
	}
}

// verifyBase is an image with a bit of everything.
func verifyBase(t testing.TB) v1.Image {
	return stack(t,
		[]testMember{dirM("lib"), legacyM("lib/a", "1"), linkM("lib/b", "lib/a"), symM("l", "lib/a"), fileM("etc/x", []byte("x"))},
		[]testMember{legacyM("bin/c", "2")})
}

func TestVerifyRebuilt(t *testing.T) {
	source := storeOCI(t, verifyBase(t))
	dest := "oci:" + t.TempDir() + "/out:x"
	rebuildTo(t, source, dest)
	v := verify(t, dest, source)
	wantProblems(t, v)
	if v.Compared != 2 || v.Findings.LeftOver() != 0 || len(v.Findings.Files) != 0 || v.Findings.ELFFiles != 2 {
		t.Errorf("got %d compared, findings %+v", v.Compared, v.Findings)
	}
	// Without a base, the findings alone; the base itself has some.
	if v := verify(t, source, ""); len(v.Findings.Files) != 2 || !v.Findings.Affected() || len(v.Problems) != 0 {
		t.Errorf("the base: got %+v", v)
	}
	// The wrong way round.
	v = verify(t, source, dest)
	if len(v.Problems) < 3 || v.Compared != 0 {
		t.Errorf("the base against the result: got %d compared, problems %q", v.Compared, v.Problems)
	}
}

// TestVerifyFinds: each is one thing that a derived image must not have changed.
func TestVerifyFinds(t *testing.T) {
	base := verifyBase(t)
	source := storeOCI(t, base)
	fixed := func(name, text string) testMember {
		m := fileM(name, fixedELF(text))
		m.Mode = 0o755
		return m
	}
	with := func(m testMember, change func(*testMember)) testMember { change(&m); return m }
	good := []testMember{fixed("bin/c", "2"), fixed("lib/a", "1"), linkM("lib/b", "lib/a")}
	for _, tc := range []struct {
		name  string
		layer []testMember
		want  []string
	}{
		{"control", good, nil},
		{"new file", append(good, fileM("zz", nil)), []string{"zz: not in the base"}},
		{"missing file", append(good, fileM("etc/.wh.x", nil)), []string{"etc/x: missing"}},
		{"other content", append(good, fileM("etc/x", []byte("y"))), []string{"etc/x: "}},
		{"same content again", append(good, fileM("etc/x", []byte("x"))), nil},
		{"other mode", []testMember{good[0], with(good[1], func(m *testMember) { m.Mode = 0o4755 }), good[2]}, []string{"lib/a: mode: got 04755, want 0755", "lib/b: mode"}},
		{"other owner", append(good[1:], with(good[0], func(m *testMember) { m.Gid = 7 })), []string{"bin/c: owner: got 0:7, want 0:0"}},
		{"other time", append(good[1:], with(good[0], func(m *testMember) { m.ModTime = testTime.Add(1) })), []string{"bin/c: mtime"}},
		{"other xattrs", append(good[1:], with(good[0], func(m *testMember) {
			m.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": capNetRaw}
		})), []string{"bin/c: xattrs: got [security.capability], want []"}},
		{"hard link torn", []testMember{good[0], good[1], fixed("lib/b", "1")}, []string{"lib/b: hard links: got those of lib/b, want those of lib/a"}},
		{"other symlink", append(good, symM("l", "lib/b")), []string{`l: symlink: got "lib/b", want "lib/a"`}},
		{"other kind", append(good, fileM(".wh.etc", nil), fileM("etc", nil)), []string{"etc: another kind of file", "etc/x: missing"}},
		{"folder's mode", append(good, with(dirM("lib"), func(m *testMember) { m.Mode = 0o700 })), []string{"lib: mode: got 0700, want 0755"}},
		{"one more byte changed", append(good[1:], fixed("bin/c", "3")), []string{"bin/c: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			img := must[v1.Image](t)(mutate.Append(base, mutate.Addendum{
				Layer: bytesLayer(t, tarMembers(t, tc.layer...)), History: v1.History{CreatedBy: "vfix 1.2 rebuild"},
			}))
			wantProblems(t, verify(t, storeOCI(t, img), source), tc.want...)
		})
	}
	t.Run("environment", func(t *testing.T) {
		cf := must[*v1.ConfigFile](t)(base.ConfigFile()).DeepCopy()
		cf.Config.Env = []string{"A=1"}
		wantProblems(t, verify(t, storeOCI(t, must[v1.Image](t)(mutate.ConfigFile(base, cf))), source), "image config: config: Env: got [A=1], want [A=<&>]")
	})
	t.Run("another base layer", func(t *testing.T) {
		other := stack(t, []testMember{fileM("x", nil)})
		v := verify(t, storeOCI(t, other), source)
		if len(v.Problems) == 0 || !strings.HasPrefix(v.Problems[0], "image config: history") || !strings.Contains(strings.Join(v.Problems, "\n"), "layer 0: got sha256:") {
			t.Errorf("got problems %q", v.Problems)
		}
	})
}

func TestVerifyFoldersAndTarballs(t *testing.T) {
	dir := legacyFolder(t)
	out := filepath.Join(t.TempDir(), "out")
	patch(t, PatchOptions{Output: out}, dir)
	v := verify(t, "dir:"+out, "dir:"+dir)
	wantProblems(t, v)
	if v.Compared != 2 || v.Findings.ELFFiles != 3 {
		t.Errorf("got %d compared, %d ELF files", v.Compared, v.Findings.ELFFiles)
	}
	if err := os.Chmod(out+"/bin/c", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, out+"/text", []byte("other"))
	if err := os.Chtimes(out+"/text", stat(t, dir+"/text").ModTime(), stat(t, dir+"/text").ModTime()); err != nil {
		t.Fatal(err)
	}
	wantProblems(t, verify(t, "dir:"+out, "dir:"+dir), "bin/c: mode", "text: ")

	in := write(t, filepath.Join(t.TempDir(), "in.tar"), tarMembers(t, legacyM("a", "1"), fileM("b", nil)))
	patch(t, PatchOptions{Output: in + ".out"}, in)
	v = verify(t, in+".out", in)
	wantProblems(t, v)
	if v.Compared != 1 {
		t.Errorf("tarballs: got %d compared, want 1", v.Compared)
	}

	one := filepath.Join(t.TempDir(), "c2")
	patch(t, PatchOptions{Output: one}, dir+"/bin/c")
	v = verify(t, one, dir+"/bin/c")
	wantProblems(t, v)
	if v.Compared != 1 {
		t.Errorf("single files: got %d compared, want 1", v.Compared)
	}
}
