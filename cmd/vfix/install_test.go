// The output of vfix install and uninstall, and what they refuse.

package main

import (
	"strings"
	"testing"

	"vfix.dev/vfix/host/install"
)

// Options reach the engine, stdout carries what to type next, and what comes out of files writes nothing to the terminal.
func TestInstallOutput(t *testing.T) {
	var passed install.Options
	e := engine{install: func(o install.Options) (*install.Result, error) {
		passed = o
		r := &install.Result{
			Changes: []install.Change{
				{Path: "/usr/local/lib/vfix/vfix-runtime", Size: 20 << 20},
				{Path: "/etc/docker/daemon.json", Size: 12, Text: "{\n\t\"x\x1b[2J\": 1\n}\n"},
			},
			Commands: []string{"systemctl reload docker"},
		}
		if o.Engine == "containerd" {
			r.Changes[1] = install.Change{Path: "/etc/containerd/config.toml", ByHand: true, Text: "a = 1\n"}
		}
		return r, nil
	}}
	got := runLine(e, strings.Fields("install docker --root /host --config /c --default-runtime")...)
	if passed.Engine != "docker" || passed.Root != "/host" || passed.Config != "/c" || !passed.Default || passed.DryRun {
		t.Errorf("the engine got %+v", passed)
	}
	if got.status != 0 || got.stdout != "systemctl reload docker\n" {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(got.stderr, "write /usr/local/lib/vfix/vfix-runtime, 20.0 MiB") {
		t.Errorf("got %q", got.stderr)
	}
	got = runLine(e, "install", "docker", "--dry-run")
	if !passed.DryRun || !strings.Contains(got.stdout, "write /etc/docker/daemon.json, 12 B\n  {\n      \"x\\x1b[2J\": 1\n") || strings.Contains(got.stdout, "systemctl") {
		t.Errorf("dry run: got %+v", got)
	}
	got = runLine(e, "install", "containerd")
	if !strings.HasPrefix(got.stdout, "  a = 1\n") || !strings.Contains(got.stderr, "add these lines to /etc/containerd/config.toml:") {
		t.Errorf("a block: got %+v", got)
	}
	got = runLine(e, "install", "containerd", "--format", "json")
	if err := validate(t, got.stdout); got.status != 0 || err != nil {
		t.Errorf("JSON: got %+v, %v", got, err)
	}
	e.uninstall = func(install.Options) (*install.Result, error) {
		return &install.Result{Users: []string{"db", "web"}, Stays: true}, nil
	}
	got = runLine(e, "uninstall", "docker")
	if got.status != 3 || !strings.Contains(got.stderr, "need the runtime: db, web") || !strings.Contains(got.stderr, "run the same command again") {
		t.Errorf("users: got %+v", got)
	}
}

func TestInstallUsage(t *testing.T) {
	for line, want := range map[string]string{
		"install":                          "no ENGINE given: want one of docker, podman, crio, containerd, k3s, rke2, k0s",
		"install docker podman":            "2 ENGINEs given",
		"install lxc":                      "ENGINE lxc",
		"install docker --root=":           "--root is empty",
		"install docker --config x.json":   "--config x.json: want an absolute path",
		"install podman --config /x":       "--config is for docker and containerd",
		"install podman --default-runtime": "--default-runtime is for docker",
		"install docker --format xml":      "--format xml",
		"uninstall a b":                    "2 ENGINEs given",
		"uninstall lxc":                    "ENGINE lxc",
		"uninstall --config /c":            "--config needs an ENGINE",
		"uninstall --default-runtime":      "unknown option",
	} {
		got := runLine(engine{}, strings.Fields(line)...)
		if got.status != 2 || got.stdout != "" || !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, "\nvfix: hint: ") {
			t.Errorf("vfix %s: got %+v, want status 2 and %q", line, got, want)
		}
	}
}
