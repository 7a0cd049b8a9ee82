package diagnose

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"vfix.dev/vfix/internal/rootpath"
)

// No symlink leads out of a directory, and an absolute one is relative to the directory's own root.
func TestDir(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symlinks need a privilege there")
	}
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "secret"), "outside")
	write(filepath.Join(root, "secret"), "inside")
	write(filepath.Join(root, "usr/lib/a"), "a")
	link("usr/lib", "lib")
	link("/usr/lib/a", "abs")
	link("../secret", "up")
	link("../../../../secret", "usr/further")
	link(filepath.Join(dir, "secret"), "out")
	link("loop", "loop")
	f, err := rootpath.OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string]string{"usr/lib/a": "a", "lib/a": "a", "abs": "a", "up": "inside", "usr/further": "inside", "out": "", "loop": "", "none": "", "lib": "", "lib/a/b": ""} {
		got, err := fs.ReadFile(f, name)
		if (err == nil) != (want != "") || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	if entries, err := fs.ReadDir(f, "lib"); err != nil || len(entries) != 1 {
		t.Errorf("lib: got %v, %v", entries, err)
	}
	if _, _, _, err := openFile(f, "/lib"); err == nil {
		t.Error("a directory is opened as a file")
	}
}
