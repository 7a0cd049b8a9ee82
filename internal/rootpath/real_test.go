package rootpath

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

// A path through a process is one below the root of that process, whatever has the same name here.
func TestReal(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "gone"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	cmd := exec.Command("/bin/sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Process.Kill()
	exe, err := filepath.EvalSymlinks("/bin/sleep")
	if err != nil {
		t.Skip(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	proc := "/proc/" + strconv.Itoa(cmd.Process.Pid)
	for path, want := range map[string]string{
		dir + "/link": dir + "/a", proc + "/exe": proc + "/root" + exe, proc + "/cwd/link": proc + "/root" + dir + "/a",
		proc + "/root" + dir + "/link": proc + "/root" + dir + "/a", proc + "/root": proc + "/root", "/proc/self/cwd": "/proc/self/root" + dir,
	} {
		real, root, err := Real(path)
		if err != nil || real != want || (root == "") != (path == dir+"/link") {
			t.Errorf("%s: got %s in %q, %v, want %s", path, real, root, err, want)
		}
	}
	f, err := os.Open("gone")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove("gone"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Real("/proc/self/fd/" + strconv.Itoa(int(f.Fd()))); !errors.Is(err, os.ErrNotExist) || !strings.Contains(hinterr.HintOf(err), "| vfix scan -") {
		t.Errorf("a file that was removed: got %v", err)
	}
	if _, _, err := Real(proc + "/root/nothing/here"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
