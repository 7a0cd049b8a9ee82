package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/tests/tinyelf"
)

// The tests run again as root in a mount namespace of their own, and mount overlays there. This program is also the
// confined process, a process in a root, and a start that is killed.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case examiner.Name:
		os.Exit(examiner.Main())
	case "sleeper":
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "starter":
		s := newTestStart(os.Args[1])
		_ = s.run(os.Args[2], filepath.Join(os.Args[2], "config.json"))
		os.Exit(0)
	}
	const own = "VFIX_TEST_NAMESPACE"
	if os.Geteuid() != 0 || os.Getenv(own) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), own+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newTestStart(state string) *start {
	o := &Options{
		Version: "test", Maker: "test",
		Library:   func() []byte { return []byte("library") },
		Library32: func() []byte { return []byte("library32") },
	}
	s := newStart(o, "runtime", Config{State: state}, nil)
	s.record.Container = "c1"
	return s
}

// node is the state of vfix on a node, and directories of a test.
type node struct {
	*testing.T
	dir, state string
	n          int
}

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("overlays need root")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skipf("/ is not a mount point: %v", err)
	}
	n := &node{T: t, dir: t.TempDir()}
	n.state = filepath.Join(n.dir, "state")
	n.must(os.Mkdir(n.state, 0o700))
	return n
}

func (n *node) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n *node) write(path string, content []byte) {
	n.Helper()
	n.must(os.MkdirAll(filepath.Dir(path), 0o755))
	n.must(os.WriteFile(path, content, 0o755))
}

func (n *node) read(path string) []byte {
	n.Helper()
	b, err := os.ReadFile(path)
	n.must(err)
	return b
}

// image is a directory with a legacy program at each name, and a text file.
func (n *node) image(names ...string) string {
	n.n++
	dir := filepath.Join(n.dir, fmt.Sprint("image", n.n))
	n.write(dir+"/etc/hosts", bytes.Repeat([]byte("no program\n"), 10))
	for i, name := range names {
		n.write(filepath.Join(dir, name), tinyelf.Bytes(uint32(n.n*100+i)))
	}
	return dir
}

// container is a bundle.
type container struct {
	*node
	bundle, root, upper string
	annotations         map[string]string
	mounts              []map[string]any
}

// container mounts an overlay of images, the uppermost first.
func (n *node) container(images ...string) *container {
	n.Helper()
	c := n.bundle()
	dir := filepath.Dir(c.root)
	c.upper = dir + "/upper"
	n.must(os.Mkdir(c.upper, 0o755))
	n.must(os.Mkdir(dir+"/work", 0o755))
	n.mount("overlay", c.root, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(images, ":"), c.upper, dir+"/work"))
	return c
}

func (n *node) bundle() *container {
	n.n++
	dir := filepath.Join(n.dir, fmt.Sprint("container", n.n))
	c := &container{node: n, bundle: dir, root: dir + "/rootfs"}
	n.must(os.MkdirAll(c.root, 0o755))
	return c
}

func (n *node) mount(kind, at, options string) {
	n.Helper()
	n.must(unix.Mount(kind, at, kind, 0, options))
	n.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

func (n *node) bind(from, to string) {
	n.Helper()
	n.must(unix.Mount(from, to, "", unix.MS_BIND, ""))
	n.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
}

// write the config.json.
func (c *container) prepare() {
	text, err := json.Marshal(map[string]any{"root": map[string]string{"path": "rootfs"}, "annotations": c.annotations, "mounts": c.mounts})
	c.must(err)
	c.write(filepath.Join(c.bundle, "config.json"), text)
}

// start starts the container, and returns its record.
func (c *container) start(change ...func(*start)) Record {
	c.Helper()
	c.prepare()
	s := newTestStart(c.state)
	for _, f := range change {
		f(s)
	}
	if err := s.run(c.bundle, filepath.Join(c.bundle, "config.json")); err != nil && !errors.Is(err, errRequired) && s.record.Reason == "" {
		c.Error(err)
	}
	return s.record
}

// expect compares the result of a start, and a part of what is left or the reason.
func (n *node) expect(r Record, result, why string) {
	n.Helper()
	if text := fmt.Sprint(r.Reason, r.Left); r.Result != result || !strings.Contains(text, why) || why == "" && text != "[]" {
		n.Errorf("got %s, %s, want %s, %q", r.Result, text, result, why)
	}
}

// patched fails unless each file of the root is patched, and works.
func (c *container) patched(names ...string) {
	c.Helper()
	for _, name := range names {
		if got := run(filepath.Join(c.root, name)); got != tinyelf.Patched {
			c.Errorf("%s: exit status %d, want %d", name, got, tinyelf.Patched)
		}
	}
}

func (c *container) unpatched(names ...string) {
	c.Helper()
	for _, name := range names {
		if got := run(filepath.Join(c.root, name)); got == tinyelf.Patched {
			c.Errorf("%s is patched", name)
		}
	}
}

func run(path string) int {
	cmd := exec.Command(path)
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode()
}

// within fails a test that hangs.
func (n *node) within(d time.Duration, f func()) {
	n.Helper()
	begun := time.Now()
	f()
	if took := time.Since(begun); took > d {
		n.Errorf("took %v, want at most %v", took, d)
	}
}

func edit(offset uint64, old, new string) patch.Edit {
	return patch.Edit{Offset: offset, Old: []byte(old), New: []byte(new)}
}

func ctime(fi os.FileInfo) int64 { return fi.Sys().(*syscall.Stat_t).Ctim.Nano() }

// setFlags sets the flags of a file (ioctl_iflags(2)).
func setFlags(path string, flags int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
}
