package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/nri"
)

// A file is replaced if its content differs, and an error is returned if it cannot be.
func TestInstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, programName)
	install := func(dir, content string) error {
		h := &hooker{Options: Options{Options: nri.Options{Dir: dir}, Hook: []byte(content)}}
		return h.install()
	}
	for _, content := range []string{"", "program", "program", "another one"} {
		before, _ := os.Stat(path)
		if err := install(dir, content); err != nil {
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
	if err := install(path, ""); err == nil {
		t.Error("below a file: no error")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := install(dir, "program"); err == nil {
		t.Error("over a directory: no error")
	}
}

// A directory of the container's image is not the node's, and a volume in it is. The test runs again as the first process
// of a root that is an overlay.
func TestOnNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an overlay needs root")
	}
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe", dir)
	cmd.Args[0] = "contained"
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "image: false, volume: true\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if err := onNode(dir); err != nil {
		t.Errorf("outside of a container: %v", err)
	}
}

func TestMain(m *testing.M) {
	if os.Args[0] != "contained" {
		os.Exit(m.Run())
	}
	dir := os.Args[1]
	err := os.Chdir(dir)
	for _, name := range []string{"lower", "upper", "work", "root"} {
		err = errors.Join(err, os.Mkdir(name, 0o755))
	}
	err = errors.Join(err, unix.Mount("overlay", "root", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work"),
		os.MkdirAll("root/image", 0o755), os.MkdirAll("root/volume", 0o755),
		unix.Mount("lower", "root/volume", "", unix.MS_BIND, ""), unix.Chroot("root"), os.Chdir("/"))
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("image: %v, volume: %v\n", onNode("/image") == nil, onNode("/volume") == nil)
}
