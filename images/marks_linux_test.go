package images_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/internal/filemarks"
	"vfix.dev/vfix/tests/imagetest"
)

// setMarks gives a file xattrs that vouch for its content, and one that does not; it returns
// those that the file system took.
func setMarks(t *testing.T, file string) (marked []string) {
	t.Helper()
	imagetest.AsRoot(t, "security xattrs")
	for _, name := range []string{"security.evm", "security.ima", "user.fsverity.sig", "user.kept"} {
		err := unix.Setxattr(file, name, []byte("\x03x"), 0)
		switch {
		case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.EPERM):
			t.Logf("%s: not taken here: %v", name, err)
		case err != nil:
			t.Fatal(err)
		case filemarks.Is(name):
			marked = append(marked, name)
		}
	}
	return marked
}

func hasXattr(t *testing.T, file, name string) bool {
	t.Helper()
	_, err := unix.Getxattr(file, name, make([]byte, 100))
	return err == nil
}

// TestPatchDropsMarks: the patched copy has no marks of the old content and says so, in place
// and elsewhere; a file that is not patched keeps its own.
func TestPatchDropsMarks(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		dir := imagetest.LegacyDir(t)
		marked := setMarks(t, dir+"/bin/c")
		setMarks(t, dir+"/text")
		out := dir
		o := patch.Options{InPlace: inPlace}
		if !inPlace {
			out = t.TempDir() + "/out"
			o.Output = out
		}
		f := imagetest.Patch(t, o, dir)
		for _, name := range marked {
			if hasXattr(t, out+"/bin/c", name) {
				t.Errorf("in place %v: %s is still there", inPlace, name)
			}
			if !hasXattr(t, out+"/text", name) {
				t.Errorf("in place %v: %s of a file that is not patched is gone", inPlace, name)
			}
		}
		for i := range f.Files {
			file := &f.Files[i]
			got := strings.Contains(strings.Join(file.Plan.Warnings, "\n"), strings.Join(marked, ", ")+" dropped")
			if want := strings.HasSuffix(file.Path, "bin/c") && len(marked) > 0; got != want {
				t.Errorf("in place %v: %s: got warnings %q", inPlace, file.Path, file.Plan.Warnings)
			}
		}
	}
	file := t.TempDir() + "/c"
	imagetest.Write(t, file, imagetest.LegacyELF("1"))
	marked := setMarks(t, file)
	imagetest.Patch(t, patch.Options{Output: file + "2"}, file)
	for _, name := range marked {
		if hasXattr(t, file+"2", name) {
			t.Errorf("%s is still there", name)
		}
	}
}

// TestTarballDropsMarks: the same of a member of a tarball.
func TestTarballDropsMarks(t *testing.T) {
	old, kept := imagetest.LegacyM("bin/c", "1"), imagetest.FileM("text", []byte("x"))
	old.PAXRecords = map[string]string{"SCHILY.xattr.security.ima": "1", "SCHILY.xattr.user.x": "2", "SCHILY.xattr.trusted.overlay.origin": "3"}
	kept.PAXRecords = map[string]string{"SCHILY.xattr.security.ima": "1"}
	dir := t.TempDir()
	in := imagetest.Write(t, dir+"/in.tar", imagetest.TarMembers(t, old, kept))
	imagetest.Patch(t, patch.Options{Output: dir + "/out.tar"}, in)
	f, err := os.Open(dir + "/out.tar")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, m := range imagetest.ReadTar(t, io.Reader(f)) {
		if _, has := m.PAXRecords["SCHILY.xattr.security.ima"]; has != (m.Name == "text") {
			t.Errorf("%s: got %v", m.Name, m.PAXRecords)
		}
		if _, has := m.PAXRecords["SCHILY.xattr.trusted.overlay.origin"]; has {
			t.Errorf("%s: names the file that it was copied from: got %v", m.Name, m.PAXRecords)
		}
		if _, has := m.PAXRecords["SCHILY.xattr.user.x"]; has != (m.Name == "bin/c") {
			t.Errorf("%s: got %v", m.Name, m.PAXRecords)
		}
	}
}
