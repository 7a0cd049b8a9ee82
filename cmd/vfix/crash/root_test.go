package crash

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// A line of the kernel's log and a root: its fix is proposed if a file of the root calls that function, and only then.
func TestRootOfALine(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	for name, body := range map[string][]byte{"old": imagetest.LegacyELF("1"), "new": imagetest.ModernELF("1")} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		imagetest.Write(t, filepath.Join(dir, name, "lib.so"), body)
	}
	legacy := imagetest.LegacyM("usr/lib/libold.so", "1")
	oci := "oci:" + filepath.Join(dir, "oci") + ":x"
	imagetest.Put(t, oci, media.Result{Image: imagetest.Stack(t, []imagetest.TestMember{imagetest.DirM("usr/lib"), legacy})})
	none := "oci:" + filepath.Join(dir, "none") + ":x"
	imagetest.Put(t, none, media.Result{Image: imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("lib.so", imagetest.ModernELF("1"))})})
	tarball := imagetest.Write(t, filepath.Join(dir, "root.tar"), imagetest.TarMembers(t, imagetest.DirM("usr/lib"), legacy))
	packed := imagetest.Write(t, filepath.Join(dir, "root.tar.gz"), imagetest.GzipOf(t, imagetest.TarMembers(t, legacy)))
	for _, c := range []struct{ root, address, fix string }{
		{tarball, "ffffffffff600400", "vfix patch -i " + tarball},
		{tarball, "ffffffffff600800", ""},
		{packed, "ffffffffff600400", "vfix patch -i " + packed},
		{oci, "ffffffffff600400", "vfix rebuild " + oci}, // time
		{oci, "ffffffffff600800", ""},                    // getcpu
		{none, "ffffffffff600400", ""},
		{filepath.Join(dir, "old"), "ffffffffff600400", "vfix patch -i " + filepath.Join(dir, "old")},
		{filepath.Join(dir, "old"), "ffffffffff600800", ""},
		{filepath.Join(dir, "new"), "ffffffffff600400", ""},
	} {
		line := "a[7]: segfault at " + c.address + " ip " + c.address + " sp 00007ff0 error 15"
		found, err := Diagnose(context.Background(), []string{line}, Options{Root: c.root})
		if err != nil || len(found) != 1 || len(found[0].Crashes) != 1 {
			t.Errorf("%s: got %+v, %v", c.root, found, err)
			continue
		}
		got := ""
		for _, f := range found[0].Crashes[0].Fixes {
			got += f.Command
		}
		if got != c.fix {
			t.Errorf("%s, %s: got %q, notes %q", c.root, c.address, got, found[0].Crashes[0].Notes)
		}
	}
}

// A root that is a file of another kind is refused, with the command that unpacks it.
func TestRootOfNoFiles(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{"hsqs": "unpack it: unsquashfs -d ", "text": "see 'vfix help sources'"} {
		name := imagetest.Write(t, filepath.Join(dir, "root"), []byte(content))
		_, err := Diagnose(context.Background(), []string{"web exited with code 139"}, Options{Root: name})
		if err == nil || !strings.HasPrefix(hinterr.HintOf(err), want) {
			t.Errorf("%s: got %v, hint %q", content, err, hinterr.HintOf(err))
		}
	}
}
