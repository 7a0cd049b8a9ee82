package imagetest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// AsNobody calls do as a user who owns nothing in dir, in all threads. Whoever is not root is such a user for files
// without any permission.
func AsNobody(t testing.TB, dir string, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		do()
		return
	}
	for d := dir; d != filepath.Clean(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const nobody, same = 65534, -1
	if err := syscall.Setresuid(same, nobody, 0); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setresuid(same, 0, 0); err != nil {
			panic(err)
		}
	}()
	do()
}
