// Names that completion offers, and the script for bash.

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"vfix.dev/vfix/images/media"
)

func TestCompleteNames(t *testing.T) {
	e := engine{names: func(context.Context, media.Options) ([]string, []string, error) {
		return []string{"redis:2.8.22", "centos:6"}, []string{"db", "web-1"}, nil
	}}
	for line, want := range map[string]string{
		"scan ":            "centos:6 redis:2.8.22 :0",
		"scan r":           "redis:2.8.22 :0",
		"scan container:d": "container:db :0",
		"rebuild c":        "centos:6 :0",
		"hotfix ":          "centos:6 db redis:2.8.22 web-1 :0",
		"diagnose w":       "web-1 :0",
		"scan ./":          ":0",
	} {
		got := runLine(e, append([]string{"__completeNoDesc"}, strings.Split(line, " ")...)...)
		if text := strings.Join(strings.Fields(got.stdout), " "); text != want {
			t.Errorf("%q: got %q, want %q", line, text, want)
		}
	}
	e.names = func(context.Context, media.Options) ([]string, []string, error) {
		return nil, nil, errors.New("no daemon")
	}
	if got := runLine(e, "__completeNoDesc", "scan", ""); strings.TrimSpace(got.stdout) != ":0" {
		t.Errorf("no daemon: got %q", got.stdout)
	}
}

// A bash without bash-completion gets one message about what it needs, and continues.
func TestBashCompletionNeeds(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	script := runLine(engine{}, "completion", "bash").stdout
	if !strings.HasPrefix(script, "# vfix completion for bash") {
		t.Fatalf("got %.80q", script)
	}
	script = strings.ReplaceAll(script, "/usr/share/bash-completion/bash_completion", "/nonexistent")
	file := t.TempDir() + "/vfix.bash"
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(bash, "--norc", "-c", ". "+file+"; echo on").CombinedOutput()
	if err != nil || string(out) != "vfix: completion for bash needs the package bash-completion\non\n" {
		t.Errorf("got %q, %v", out, err)
	}
}
