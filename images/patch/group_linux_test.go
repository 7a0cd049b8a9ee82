package patch_test

import (
	"os"
	"testing"

	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// A file of one's own with a group of others is patched in place, and the group is lost with a
// warning; except for one that runs with that group's rights.
func TestForeignGroup(t *testing.T) {
	imagetest.AsRoot(t, "only root can make such files")
	const nobody, group = 65534, 5678
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/opt/bin", 0o777); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"opt/bin/own": 0o755, "setgid": os.ModeSetgid | 0o755} {
		path := imagetest.Write(t, dir+"/"+name, imagetest.LegacyELF("x"))
		if err := os.Chown(path, nobody, group); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{dir, dir + "/opt/bin"} {
		if err := os.Chown(d, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	imagetest.AsNobody(t, dir, func() {
		f := imagetest.Patch(t, patch.Options{InPlace: true}, dir+"/opt")
		if len(f.Warnings) != 1 || f.Warnings[0] != dir+"/opt/bin/own: not kept: group 5678 (needs root)" {
			t.Errorf("got warnings %q", f.Warnings)
		}
		if _, err := patch.All(t.Context(), []string{dir + "/setgid"}, patch.Options{InPlace: true}); err == nil {
			t.Error("a setgid file: no error")
		}
	})
	imagetest.WantContent(t, dir+"/opt/bin/own", imagetest.FixedELF("x"))
	imagetest.WantContent(t, dir+"/setgid", imagetest.LegacyELF("x"))
	imagetest.WantEmpty(t, dir, "opt", "setgid")
}
