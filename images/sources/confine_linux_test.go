package sources_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// A confined program has the image and no other file of this machine but programs and libraries, few rights, and
// limits; with a directory it may create files there for anybody, and without one it may write nothing.
func TestConfined(t *testing.T) {
	imagetest.AsRoot(t, "a root filesystem of its own")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	image := imagetest.Write(t, t.TempDir()+"/x", []byte("the image"))
	const common = "cat " + sources.ConfinedImage + "; echo; " +
		"ls -d /etc /tmp /proc /root 2>/dev/null; echo no >" + sources.ConfinedImage + "; echo no >/usr/x; echo no >/x; chroot / true && echo chroot; " +
		"prlimit --noheadings --raw -o SOFT,HARD --nofile --core --data; ulimit -f; id -u; setpriv --dump | grep -e no_new -e bounding; "
	limits := fmt.Sprintf("%[1]d %[1]d\n0 0\n%[2]d %[2]d\n", sources.ConfinedFiles, int64(sources.ConfinedMemory))
	const rights = "no_new_privs: 1\nCapability bounding set: "
	dir := t.TempDir()
	for _, c := range []struct{ dir, script, want string }{
		{"", common, "the image\n" + limits + "0\n65534\n" + rights + "[none]\n"},
		{dir, common + "cd " + sources.ConfinedDir + " && touch a && chown 7:8 a && chmod 4755 a && mknod b c 1 3 && stat -c '%u %g %a' a",
			"the image\n" + limits + "unlimited\n0\n" + rights + "chown,dac_override,fowner,fsetid,mknod,setfcap\n7 8 4755\n"},
	} {
		var out, said bytes.Buffer
		cmd := exec.Command("/bin/sh", "-c", c.script+"\nexit 0")
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := sources.RunConfined(cmd, image, c.dir); err != nil || out.String() != c.want {
			t.Errorf("directory %q: got %v, %q, want %q; it says %s", c.dir, err, out.String(), c.want, said.String())
		}
	}
	if names, _ := filepath.Glob(dir + "/*"); len(names) != 2 {
		t.Errorf("in the directory: got %q", names)
	}
	if b := imagetest.Must[[]byte](t)(os.ReadFile(image)); string(b) != "the image" {
		t.Errorf("the image: got %q", b)
	}
	cmd := exec.Command("/bin/sh", "-c", "exit 3")
	if err := sources.RunConfined(cmd, image, ""); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a program that fails: got %v", err)
	}
	// A program outside of /usr is there as well, with its directory.
	own := imagetest.Write(t, filepath.Join(t.TempDir(), "sh"), imagetest.Must[[]byte](t)(os.ReadFile("/bin/sh")))
	if err := os.Chmod(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := sources.RunConfined(exec.Command(own, "-c", "test -f "+own), image, ""); err != nil {
		t.Errorf("a program elsewhere: got %v", err)
	}
	for _, c := range []struct{ name, program, image, dir, says string }{
		{"no image", "/bin/true", "/nowhere", "", "stat /nowhere"}, {"no directory", "/bin/true", image, "/nowhere", "stat /nowhere"}, {"no program", "/nowhere/true", image, "", "exec /nowhere/true"},
	} {
		err := sources.RunConfined(exec.Command(c.program), c.image, c.dir)
		if !errors.Is(err, sources.ErrNotConfined) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	if b := imagetest.Must[[]byte](t)(os.ReadFile("/proc/self/mountinfo")); bytes.Contains(b, []byte("vfix-root-")) {
		t.Errorf("mounts are left: %s", b)
	}
	imagetest.WantEmpty(t, temp)
}
