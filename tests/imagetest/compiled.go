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

// JVMLibrary is a library with the hazard java-cgroups, which the fix of this name cures. Its plan makes it larger.
func JVMLibrary(t testing.TB) []byte {
	t.Helper()
	return Compiled(t, `
		const char version[] = " for linux-amd64 JRE (17.0.9+9), built on";
		void *fopen(const char *, const char *);
		void *mounts(void) { return fopen("/proc/self/mountinfo", "r"); }
		void *cgroups(void) { return fopen("/proc/cgroups", "r"); }`, "-shared", "-fPIC", "-Wl,-soname,libjvm.so")
}
