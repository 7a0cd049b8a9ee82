package blob_test

import (
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"vfix.dev/vfix/images/blob"
)

// A decompressor is in a process group of its own, where ^C of a terminal does not reach it.
func TestChildIsApart(t *testing.T) {
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Skip(err)
	}
	r, w := io.Pipe()
	c, err := blob.StartChild(t.Context(), []string{cat}, r)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pid := c.Cmd().Process.Pid
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("process group of child %d: got %d, %v", pid, group, err)
	}
	go func() {
		io.Copy(w, strings.NewReader("through"))
		w.Close()
	}()
	if b, err := io.ReadAll(c); err != nil || string(b) != "through" {
		t.Errorf("got %q, %v", b, err)
	}
}
