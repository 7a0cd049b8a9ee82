package sources_test

import (
	"bytes"
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
	image := imagetest.Write(t, t.TempDir()+"/x", []byte("the image"))
	const common = "cat " + sources.ConfinedImage + "; echo; " +
		"ls -d /etc /tmp /proc /root 2>/dev/null; echo no >" + sources.ConfinedImage + "; echo no >/usr/x; chroot / true && echo chroot; " +
		"ulimit -n; ulimit -c; ulimit -d; ulimit -f; id -u; "
	limits := fmt.Sprintf("%d\n0\n%d\n", sources.ConfinedFiles, int64(sources.ConfinedMemory)>>10)
	dir := t.TempDir()
	for _, c := range []struct{ dir, script, want string }{
		{"", common, "the image\n" + limits + "0\n65534\n"},
		{dir, common + "cd " + sources.ConfinedDir + " && touch a && chown 7:8 a && chmod 4755 a && mknod b c 1 3 && stat -c '%u %g %a' a",
			"the image\n" + limits + "unlimited\n0\n7 8 4755\n"},
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
}
