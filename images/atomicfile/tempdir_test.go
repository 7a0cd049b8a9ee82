package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/tests/imagetest"
)

// The remains of a killed process are removed, and nothing else.
func TestAbandoned(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	long := time.Now().Add(-time.Hour)
	mkdir := func(name string) string {
		path := filepath.Join(temp, name)
		if err := os.MkdirAll(filepath.Join(path, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
		return path
	}
	used, remove, err := atomicfile.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(used, long, long); err != nil {
		t.Fatal(err)
	}
	left, fresh, others := mkdir(".vfix-dir-1"), mkdir(".vfix-dir-2"), mkdir(".vfix-1234")
	strangers := mkdir(".vfix-dir-4")
	if err := os.Chown(strangers, 65534, 65534); err != nil {
		strangers = others // only root can give it away
	}
	if err := os.Chtimes(fresh, time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	file := imagetest.Write(t, filepath.Join(temp, ".vfix-dir-5"), nil)
	if err := os.Chtimes(file, long, long); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(temp, ".vfix-dir-3")
	if err := os.Symlink(others, link); err != nil {
		t.Fatal(err)
	}
	atomicfile.RemoveAbandoned()
	for path, want := range map[string]bool{used: true, fresh: true, others: true, strangers: true, filepath.Join(others, "sub"): true, link: true, file: true, left: false} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", path, err == nil, want)
		}
	}
	remove()
	if _, err := os.Lstat(used); err == nil {
		t.Error("it is not removed")
	}
}
