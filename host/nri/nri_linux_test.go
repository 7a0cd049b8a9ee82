// The options of the plugin, and that it gets them; the program of the hook, and where it may be.

package nri

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func valid() Options {
	return Options{
		Socket: DefaultSocket, Dir: DefaultDir,
		Selection: Selection{Namespaces: []string{"a*", "!b"}, Images: []string{"c"}, Labels: []string{"d=e"}, Annotations: []string{"!f=g"}},
	}
}

// The tests run this program again: to start a plugin, and as the plugin, which prints what it got.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case "start":
		self, err := os.ReadFile("/proc/self/exe")
		o := valid()
		o.Dir = os.Args[1]
		if err == nil {
			err = Start(o, self, []byte("the hook"))
		}
		fmt.Println(err)
		os.Exit(1)
	case "vfix-nri":
		o, err := Parse(os.Args)
		_ = json.NewEncoder(os.Stdout).Encode([]any{o, fmt.Sprint(err), os.Getenv("OF_THE_PLUGIN")})
		os.Exit(0)
	case "contained":
		contain(os.Args[1])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestStart(t *testing.T) {
	want := valid()
	want.Dir = filepath.Join(t.TempDir(), "new")
	for range 2 { // the program of the hook is replaced
		c := exec.Command("/proc/self/exe", want.Dir)
		c.Args[0], c.Env = "start", append(os.Environ(), "OF_THE_PLUGIN=kept")
		out, err := c.Output()
		var o Options
		var parsed, env string
		if json.Unmarshal(out, &[]any{&o, &parsed, &env}) != nil || err != nil || parsed != "<nil>" || env != "kept" {
			t.Fatalf("%v: %s", err, out)
		}
		if !reflect.DeepEqual(o, want) {
			t.Errorf("got %+v", o)
		}
		hook, err := os.ReadFile(want.Hook())
		fi, serr := os.Stat(want.Hook())
		if err := errors.Join(err, serr); err != nil || string(hook) != "the hook" || fi.Mode() != 0o755 {
			t.Errorf("got %q, %v, %v", hook, fi, err)
		}
		if err := os.WriteFile(want.Hook(), []byte("an older one"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want.Dir = want.Hook()
	if err := Start(want, nil, nil); err == nil {
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

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"vfix-nri"}, {"vfix-nri", "{}", "{}"}, {"vfix-nri", "{"}} {
		if _, err := Parse(args); err == nil {
			t.Errorf("%q: no error", args)
		}
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
