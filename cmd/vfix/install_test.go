// The output of vfix install and uninstall, and what they refuse.

package main

import (
	"context"
	"strings"
	"testing"

	"vfix.dev/vfix/host/install"
)

// Options reach the engine, stdout carries the next command to type, and what comes out
// of files writes nothing to the terminal.
func TestInstallOutput(t *testing.T) {
	var passed install.Options
	e := fake(clean(), nil)
	e.install = func(o install.Options) (*install.Result, error) {
		passed = o
		return installedBy(o), nil
	}
	got := runLine(e, strings.Fields("install k3s --root /host --name v --runtime crun --prefix /opt --config /c --fail-closed --opt-in --fallback --force --default-runtime --program /p")...)
	want := install.Options{
		Engine: install.K3s, Root: "/host", Name: "v", Runtime: "crun", Prefix: "/opt", Config: "/c", Program: "/p",
		FailClosed: true, OptIn: true, Fallback: true, Force: true, Default: true,
	}
	if !sameOptions(passed, want) {
		t.Errorf("the engine got %+v, want %+v", passed, want)
	}
	if got.status != 0 || got.stdout != "systemctl restart containerd\n" {
		t.Errorf("got %+v", got)
	}
	for _, text := range []string{"+        x\\x1b[2J = 1", "create /usr/local/bin/vfix, 20.0 MiB", "warning: a warning", "kind: RuntimeClass"} {
		if !strings.Contains(got.stderr, text) {
			t.Errorf("%q is not in %q", text, got.stderr)
		}
	}
	got = runLine(e, "install", "docker", "--dry-run")
	if !strings.Contains(got.stdout, "replace /etc/containerd/config.toml\n--- ") || strings.Contains(got.stdout, "systemctl") || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("dry run: got %+v", got)
	}
}

func sameOptions(a, b install.Options) bool {
	return a.Engine == b.Engine && a.Root == b.Root && a.Name == b.Name && a.Runtime == b.Runtime && a.Prefix == b.Prefix &&
		a.Config == b.Config && a.Program == b.Program && a.FailClosed == b.FailClosed && a.OptIn == b.OptIn &&
		a.Fallback == b.Fallback && a.Force == b.Force && a.Default == b.Default
}

func TestInstallUsage(t *testing.T) {
	for line, want := range map[string]string{
		"install":                      "no ENGINE given: want one of docker, containerd, crio, podman, k3s, rke2, k0s, auto",
		"install docker podman":        "2 ENGINEs given",
		"install lxc":                  "ENGINE lxc",
		"install docker --name Docker": "--name: ",
		"install docker --prefix=":     "--prefix is empty",
		"install docker --root=":       "--root is empty",
		"pause now":                    "1 arguments given",
		"install docker --format xml":  "--format xml",
		"uninstall a b":                "2 ENGINEs given",
		"uninstall auto":               "ENGINE auto",
		"uninstall --runtime runc":     "unknown option",
	} {
		got := runLine(fake(clean(), nil), strings.Fields(line)...)
		if got.status != 2 || got.stdout != "" || !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, "\nvfix: hint: ") {
			t.Errorf("vfix %s: got %+v, want status 2 and %q", line, got, want)
		}
	}
}

func TestInstallCheck(t *testing.T) {
	golden(t, "install-check.txt", runLine(fake(clean(), nil), "install", "--check").stdout)
	bad := checked()
	bad.Start.OK, bad.Problems = false, []string{"start of a container: the program ran, but it is not patched\x1b"}
	var passed install.Options
	e := fake(clean(), nil)
	e.check = func(_ context.Context, o install.Options) (*install.Checked, error) {
		passed = o
		return bad, nil
	}
	got := runLine(e, "install", "--check", "docker", "--root", "/host")
	if got.status != 3 || !strings.Contains(got.stdout, "FAILED") || !strings.Contains(got.stderr, `not patched\x1b`) || !strings.Contains(got.stderr, "1 problem with") {
		t.Errorf("got %+v", got)
	}
	if passed.Engine != install.Docker || passed.Root != "/host" {
		t.Errorf("the engine got %+v", passed)
	}
	if runLine(e, "install", "--check", "auto"); passed.Engine != "" {
		t.Errorf("auto: the engine got %+v", passed)
	}
	if got := runLine(e, "install", "--check", "--format", "json"); got.status != 3 || validate(t, schema(t), got.stdout) != nil {
		t.Errorf("got %+v", got)
	}
	for _, line := range []string{"install --check --name v", "install --check lxc", "install --check docker podman", "install --check --dry-run", "install --check --force"} {
		if got := runLine(e, strings.Fields(line)...); got.status != 2 {
			t.Errorf("vfix %s: got %+v, want status 2", line, got)
		}
	}
}
