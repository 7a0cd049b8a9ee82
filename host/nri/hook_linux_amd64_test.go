// The options of the plugin; the program of the hook, and where it may be.

package nri

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A test runs this program again, in a container.
func TestMain(m *testing.M) {
	if os.Args[0] == "contained" {
		contain(os.Args[1])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The program of the hook is replaced, and can be executed.
func TestWriteHook(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "new")}
	for range 2 {
		err := o.writeHook([]byte("the hook"))
		hook, rerr := os.ReadFile(o.Hook())
		fi, serr := os.Stat(o.Hook())
		if err := errors.Join(err, rerr, serr); err != nil || string(hook) != "the hook" || fi.Mode() != 0o755 {
			t.Errorf("got %q, %v, %v", hook, fi, err)
		}
		if err := os.WriteFile(o.Hook(), []byte("an older one"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.Dir = o.Hook()
	if err := Serve(t.Context(), o, nil); err == nil {
		t.Error("below a file: no error")
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

// contain prints what onNode says as the first process of a root that is an overlay.
func contain(dir string) {
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
	fmt.Printf("image: %v, volume: %v\n", onNode("/image/new") == nil, onNode("/volume") == nil)
}

func valid() Options {
	return Options{
		Socket: DefaultSocket, Dir: DefaultDir,
		Selection: Selection{Namespaces: []string{"a*", "!b"}, Images: []string{"c"}, Labels: []string{"d=e"}, Annotations: []string{"!f=g"}},
	}
}

// Each option is checked, and the error names it.
func TestCheck(t *testing.T) {
	if err := valid().Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Options){
		`--namespace: ""`:     func(o *Options) { o.Namespaces = []string{"a", ""} },
		`--image: "!"`:        func(o *Options) { o.Images = []string{"!"} },
		`--label: "=x"`:       func(o *Options) { o.Labels = []string{"=x"} },
		`--annotation: "!=x"`: func(o *Options) { o.Annotations = []string{"!=x"} },
		`--socket: "a"`:       func(o *Options) { o.Socket = "a" },
		`--hook-dir: ""`:      func(o *Options) { o.Dir = "" },
	} {
		o := valid()
		change(&o)
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
