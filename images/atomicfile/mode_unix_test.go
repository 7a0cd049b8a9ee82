//go:build unix

package atomicfile_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"vfix.dev/vfix/images/atomicfile"
)

// A private archive that is replaced stays private, and one that others may write to does not stay so: in /tmp it
// may be somebody's trap.
func TestReplacedMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	path := filepath.Join(t.TempDir(), "out")
	for before, want := range map[os.FileMode]os.FileMode{0: 0o644, 0o600: 0o600, 0o640: 0o640, 0o444: 0o444, 0o666: 0o644, 0o755: 0o644} {
		os.Remove(path)
		if before != 0 {
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, before); err != nil {
				t.Fatal(err)
			}
		}
		if err := atomicfile.Write(path, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode() != want {
			t.Errorf("in place of %v: got %v, %v, want %v", before, fi.Mode(), err, want)
		}
	}
}
