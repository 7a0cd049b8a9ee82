package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Uninstall refuses while shims call vfix-runtime, and names their containers; with --force a link
// to the real runtime takes its place.
func TestUninstallUnderContainers(t *testing.T) {
	const task = "run/containerd/io.containerd.runtime.v2.task/moby/c1/runtime"
	for name, c := range map[string]struct {
		file, text string
		user       string // "" where it is nobody's
	}{
		"containerd, docker":    {task, "/usr/local/bin/vfix-runtime", "moby/c1"},
		"docker's own":          {"run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby/c2/runtime", "/usr/local/bin/vfix-runtime\n", "moby/c2"},
		"podman":                {"proc/12/cmdline", "/usr/bin/conmon\x00--api-version\x001\x00-c\x00abc\x00-r\x00/usr/local/bin/vfix-runtime\x00-n\x00web\x00", "web"},
		"CRI-O":                 {"proc/12/cmdline", "conmon\x00-c\x00abc\x00--runtime=/usr/local/bin/vfix-runtime\x00", "abc"},
		"another runtime":       {task, "/usr/bin/runc", ""},
		"another conmon":        {"proc/12/cmdline", "conmon\x00-c\x00abc\x00-r\x00/usr/bin/runc\x00", ""},
		"another program":       {"proc/12/cmdline", "less\x00-r\x00/usr/local/bin/vfix-runtime\x00-c\x00abc\x00", ""},
		"what is not a process": {"proc/self/cmdline", "conmon\x00-c\x00abc\x00-r\x00/usr/local/bin/vfix-runtime\x00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := machine(t, map[string]string{"usr/sbin/dockerd": "", "usr/bin/runc": "", "etc/docker/daemon.json": daemonJSON})
			o := options(t, Docker, root)
			r, err := Install(o)
			must(t, r, err)
			installed := snapshot(t, root)
			put(t, root, c.file, c.text)
			r, err = Uninstall(Options{Root: root})
			if c.user == "" {
				must(t, r, err)
				return
			}
			if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "/usr/local/bin/vfix-runtime: 1 container that runs uses it: "+c.user) {
				t.Fatalf("got %+v, %v", r, err)
			}
			os.RemoveAll(filepath.Join(root, strings.Split(c.file, "/")[0]))
			if got := snapshot(t, root); got != installed {
				t.Errorf("it changed something: got %s, want %s", got, installed)
			}
			put(t, root, c.file, c.text)
			r, err = Uninstall(Options{Root: root, Force: true})
			must(t, r, err)
			link := filepath.Join(root, "usr/local/bin/vfix-runtime")
			if to, err := os.Readlink(link); to != "/usr/bin/runc" || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], c.user) {
				t.Errorf("got a link to %q, %v, %q", to, err, r.Warnings)
			}
			if got := get(t, root, "etc/docker/daemon.json"); got != daemonJSON {
				t.Errorf("the engine's configuration: got %s", got)
			}
			// Installed again and uninstalled when they have ended, the link is as it was left.
			r, err = Install(o)
			must(t, r, err)
			os.RemoveAll(filepath.Join(root, strings.Split(c.file, "/")[0]))
			r, err = Uninstall(Options{Root: root})
			must(t, r, err)
			if to, err := os.Readlink(link); to != "/usr/bin/runc" {
				t.Errorf("got a link to %q, %v", to, err)
			}
		})
	}
	// No real runtime, no way out.
	root := machine(t, map[string]string{"usr/sbin/dockerd": "", task: "/usr/local/bin/vfix-runtime"})
	r, err := Install(options(t, Docker, root))
	must(t, r, err)
	if r, err := Uninstall(Options{Root: root, Force: true}); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "runc or crun: not found") {
		t.Errorf("got %+v, %v", r, err)
	}
}
