package ociruntime

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/internal/tinyelf"
)

// Mounts and descriptors that may bring programs into a container, and those that do not.
func TestBringsPrograms(t *testing.T) {
	bundle := t.TempDir()
	write := func(name string, b []byte) string {
		t.Helper()
		path := filepath.Join(bundle, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program, text := write("program", tinyelf.Bytes(1)), write("text", []byte("text"))
	fifo := filepath.Join(bundle, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{program: true, text: false, fifo: false, bundle: true, bundle + "/none": false, text + "/x": true, "/dev/null": false} {
		if got := holdsProgram(path); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
	for _, c := range []struct {
		typ, source, options string
		want                 bool
	}{
		{"bind", program, "", true}, {"bind", text, "", false}, {"bind", "program", "", true}, {"bind", "text", "ro", false},
		{"none", program, "ro bind", true}, {"none", program, "rbind", true}, {"", text, "rbind", false}, {"none", text, "bind", false}, {"none", text, "ro", true},
		{"tmpfs", "tmpfs", "nosuid size=65536k mode=755", false}, {"tmpfs", "tmpfs", "nosuid tmpcopyup", true}, {"tmpfs", "tmpfs", "", false}, {"tmpfs", "tmpfs", "sizes=1", true},
		{"proc", "proc", "", false}, {"cgroup2", "x", "", false}, {"overlay", "x", "", true}, {"", "", "", true},
	} {
		m := specMount{Type: c.typ, Source: c.source, Options: strings.Fields(c.options)}
		if got := (&container{bundle: bundle}).brings(m); got != c.want {
			t.Errorf("%+v: got %v", m, got)
		}
	}
	at := filepath.Join(t.TempDir(), "named")
	for _, c := range []struct {
		path, args, trusted string
		want                bool
	}{
		{"/proc/self/exe", "libnetwork-setkey x", "", false}, {"/proc/" + fmt.Sprint(os.Getpid()) + "/exe", "libnetwork-setkey", "", false},
		{at, "named", "", false}, {at, "named", at, true}, {at, "named", at + "x", false}, {at, "", at, true}, {at, "libnetwork-setkey", "", false},
	} {
		k := &container{Config: policy.Config{TrustedHooks: c.trusted}}
		if got := k.trusts(specHook{Path: c.path, Args: strings.Fields(c.args)}); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// Of the descriptors of this process, those that the runtime inherits count: up to a number, without O_CLOEXEC.
func TestInherited(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, tinyelf.Bytes(1), 0o644); err != nil {
		t.Fatal(err)
	}
	k := &container{root: &rootfs.Root{Path: dir}}
	for _, c := range []struct {
		flags int
		more  int // descriptors behind it that are handed over
		want  string
	}{
		{unix.O_RDONLY, 0, ""}, {unix.O_RDONLY, 1, path}, {unix.O_RDONLY, 100, path}, {unix.O_RDONLY | unix.O_CLOEXEC, 100, ""},
	} {
		fd, err := unix.Open(path, c.flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := closes(fmt.Sprintf("/proc/self/fd/%d", fd)); got != (c.flags&unix.O_CLOEXEC != 0) {
			t.Errorf("%+v: closes %v", c, got)
		}
		const first = 3
		if got := k.handedOver(&command{fds: fd - first + c.more}); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
		t.Setenv("LISTEN_FDS", fmt.Sprint(fd-first+c.more))
		if got := k.handedOver(&command{}); got != c.want {
			t.Errorf("%+v, of LISTEN_FDS: got %q", c, got)
		}
		t.Setenv("LISTEN_FDS", "")
		unix.Close(fd)
	}
	if closes("/proc/self/fd/none") {
		t.Error("no descriptor: closes")
	}
	if got := k.handedOver(&command{pid: math.MaxInt32}); got != fmt.Sprintf("/proc/%d/fd", math.MaxInt32) {
		t.Errorf("no process: got %q", got)
	}
	for text, want := range map[string]int{"": 0, "0": 0, "7": 7, "07": math.MaxInt16, "-1": math.MaxInt16, "x": math.MaxInt16, "99999999999999999999": math.MaxInt16} {
		if got := count(text); got != want {
			t.Errorf("%q: got %d", text, got)
		}
	}
}

// A directory that the container's first process has open is shown by the root only if it is that very directory, in
// that very mount.
func TestIsShown(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"root/usr", "rooted"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "root/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := rootfs.Open(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]bool{"root": true, "root/usr": true, "root/file": false, "rooted": false, ".": false} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		at := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd())
		if got := (&container{pid: os.Getpid(), root: root}).isShown(at); got != want {
			t.Errorf("%s: got %v", name, got)
		}
		if (&container{root: root}).isShown(at) {
			t.Errorf("%s: shown without a process", name)
		}
		f.Close()
	}
	usr, err := os.Open(filepath.Join(dir, "root/usr"))
	if err != nil {
		t.Fatal(err)
	}
	defer usr.Close()
	if err := os.Remove(filepath.Join(dir, "root/usr")); err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), usr.Fd())
	if (&container{pid: os.Getpid(), root: root}).isShown(at) {
		t.Error("removed: shown")
	}
	if err := os.Mkdir(filepath.Join(dir, "root/usr"), 0o755); err != nil {
		t.Fatal(err)
	}
	if (&container{pid: os.Getpid(), root: root}).isShown(at) {
		t.Error("another directory of its name: shown")
	}
}
