package plugin

import (
	"os"
	"path/filepath"
	"testing"
)

// A file is replaced if its content differs, and an error is returned if it cannot be.
func TestInstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, programName)
	for _, content := range []string{"", "program", "program", "another one"} {
		before, _ := os.Stat(path)
		if err := install(dir, []byte(content)); err != nil {
			t.Fatalf("%q: %v", content, err)
		}
		after, err := os.Stat(path)
		if err != nil || after.Mode() != 0o755 {
			t.Fatalf("%q: got %v, %v", content, after, err)
		}
		if got, _ := os.ReadFile(path); string(got) != content {
			t.Errorf("got %q, want %q", got, content)
		}
		if before != nil && before.Size() == after.Size() && !os.SameFile(before, after) {
			t.Error("the same program is written again")
		}
	}
	if err := install(path, nil); err == nil {
		t.Error("below a file: no error")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := install(dir, []byte("program")); err == nil {
		t.Error("over a directory: no error")
	}
}
