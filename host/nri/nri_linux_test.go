// The options of the plugin, and that it gets them and the program of the hook.

package nri

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
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
		if err == nil {
			err = Start(valid(), self, []byte("the hook"))
		}
		fmt.Println(err)
		os.Exit(1)
	case "vfix-nri":
		o, err := Parse(os.Args)
		hook, _ := io.ReadAll(io.NewSectionReader(os.NewFile(uintptr(o.Program), "hook"), 0, 100))
		_ = json.NewEncoder(os.Stdout).Encode([]any{o, string(hook), fmt.Sprint(err), os.Getenv("OF_THE_PLUGIN")})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestStart(t *testing.T) {
	c := exec.Command("/proc/self/exe")
	c.Args, c.Env = []string{"start"}, append(os.Environ(), "OF_THE_PLUGIN=kept")
	out, err := c.Output()
	var o Options
	var hook, parsed, env string
	if json.Unmarshal(out, &[]any{&o, &hook, &parsed, &env}) != nil || err != nil || hook != "the hook" || parsed != "<nil>" || env != "kept" {
		t.Fatalf("%v: %s", err, out)
	}
	if o.Program = 0; !reflect.DeepEqual(o, valid()) {
		t.Errorf("got %+v", o)
	}
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
