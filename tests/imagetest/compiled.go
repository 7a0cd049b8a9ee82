// Programs that are compiled for a test.

package imagetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Compiled is what gcc makes of a source in C, with further arguments.
func Compiled(t testing.TB, source string, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	in := Write(t, filepath.Join(dir, "x.c"), []byte(source))
	if out, err := exec.Command("gcc", append([]string{"-O1", "-o", dir + "/x", in}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return Must[[]byte](t)(os.ReadFile(dir + "/x"))
}

// WriteLibrary writes an empty library, and returns its path.
func WriteLibrary(t testing.TB, name string) string {
	t.Helper()
	return Write(t, filepath.Join(t.TempDir(), name), Compiled(t, "", "-shared", "-nostdlib", "-Wl,-soname,"+name))
}
