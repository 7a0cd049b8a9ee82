package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Rule 9: the verb is the first word that is not an option.
func TestParseArgs(t *testing.T) {
	for line, want := range map[string]string{
		// runc under containerd and docker, crun under podman.
		"--root /run/runc --log /b/log.json --log-format json --systemd-cgroup create --bundle /b --pid-file /b/init.pid c1": "true create /b c1 /b/log.json json",
		"--root=/r --log=l --log-format=json create --bundle=/b --console-socket /s c1":                                      "true create /b c1 l json",
		"--systemd-cgroup --root=/run/crun create --bundle /b --pid-file /p c1":                                              "true create /b c1  ",
		"-log l -root /r run -bundle /b -d c1":                                                                               "true run /b c1 l ",
		"run -b /b -f other.json c1":                                                                                         "true run /b c1  ",
		"create -- c1":                                                                                                       "true create . c1  ",
		"run -b=/b c1":                                                                                                       "true run /b c1  ",
		"create - c1":                                                                                                        "true create . c1  ",
		"create -- --bundle=/b":                                                                                              "true create . --bundle=/b  ",
		"create -- -- c1":                                                                                                    "true create . c1  ",
		"create -h -d --debug=x c1":                                                                                          "false create . c1  ",
		"create --bundle":                                                                                                    "true create    ",
		"create -d=x -c=y c1":                                                                                                "true create . c1  ",
		"create --f c1":                                                                                                      "true create .   ",
		"create --final c1":                                                                                                  "true create . c1  ",
		"create -cb c1":                                                                                                      "true create . c1  ",
		"--debug create c1":                                                                                                  "true create . c1  ",
		"exec c psql create":                                                                                                 "false exec . create  ",
		"exec create run":                                                                                                    "false exec . run  ",
		"--root create state c1":                                                                                             "false state . c1  ",
		"restore --bundle /b --image-path create c1":                                                                         "false restore /b c1  ",
		"start c1":                                                                                                           "false start . c1  ", "create --help": "false create .   ", "--version": "false  .   ", "": "false  .   ",
		"--log": "false  .   ", "delete --force create": "false delete . create  ",
	} {
		c := parseArgs(strings.Fields(line))
		if got := fmt.Sprint(c.starts(), " ", c.verb, " ", c.bundle, " ", c.container, " ", c.log, " ", c.logFormat); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	for line, want := range map[string]string{"create --bundle /b -f other.json c1": "other.json", "create -b /b c1": "/b/config.json", "create c1": "config.json"} {
		if c := parseArgs(strings.Fields(line)); c.config != want {
			t.Errorf("%s: got %s, want %s", line, c.config, want)
		}
	}
}

// The real runtime is the first one that is not this program under another name.
func TestFindRuntime(t *testing.T) {
	self, real := t.TempDir(), t.TempDir()
	for name, err := range map[string]error{
		"link": os.Symlink("/proc/self/exe", filepath.Join(self, "runc")), "file": os.WriteFile(filepath.Join(real, "crun"), nil, 0o755),
		"plain file": os.WriteFile(filepath.Join(real, "runc"), nil, 0o644),
	} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	t.Setenv("PATH", self+":"+real)
	if got, link := findRuntime(), filepath.Join(self, "runc"); got == "" || got == link || got == filepath.Join(real, "runc") {
		t.Errorf("got %q", got)
	}
}
