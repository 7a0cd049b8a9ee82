// The engines: what vfix adds to the configuration of each, how it is reread, and which containers need the
// runtime: their shims execute it to stop and remove them, and docker to start them again.

package install

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

type engine struct {
	name   string
	config string // the file that the engine reads
	// change is what makes the engine use the runtime, or stop using it.
	change func(t *tree, e engine, use usage) (Change, error)
	// reload makes the engine read the changed configuration; "" if it looks at each start of a container. restart also
	// makes it forget a removed runtime; "" if reload does.
	reload, restart string
	state           string // the directory in which its containerd has what runs
}

const rancherState = "/run/k3s/containerd"

// engines are in the order of the help. The sources: https://docs.docker.com/reference/cli/dockerd/ (a reload adds
// runtimes and does not forget those that were removed), https://docs.k3s.io/advanced#configuring-containerd,
// https://docs.rke2.io/advanced, https://docs.k0sproject.io/stable/runtime/.
var engines = []engine{
	{name: "docker", config: "/etc/docker/daemon.json", change: dockerChange,
		reload: "systemctl reload docker", restart: "systemctl restart docker"},
	{name: "podman", config: hookPath, change: hookChange},
	{name: "crio", config: hookPath, change: hookChange},
	{name: "containerd", config: "/etc/containerd/config.toml", change: containerdChange,
		reload: "systemctl restart containerd", state: "/run/containerd"},
	{name: "k3s", config: "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", change: containerdChange,
		reload: "systemctl restart k3s || systemctl restart k3s-agent", state: rancherState},
	{name: "rke2", config: "/var/lib/rancher/rke2/agent/etc/containerd/config.toml", change: containerdChange,
		reload: "systemctl restart rke2-server || systemctl restart rke2-agent", state: rancherState},
	{name: "k0s", config: "/etc/k0s/containerd.toml", change: containerdChange,
		reload: "systemctl restart k0sworker || systemctl restart k0scontroller", state: "/run/k0s/containerd"},
}

// Engines are the names of all engines.
func Engines() (all []string) {
	for _, e := range engines {
		all = append(all, e.name)
	}
	return all
}

// hookPath is in the only directory that podman and CRI-O both search unless they are configured otherwise
// (https://github.com/containers/common/blob/main/pkg/hooks/docs/oci-hooks.5.md). Rootless podman searches it as well.
const hookPath = "/usr/share/containers/oci/hooks.d/99-vfix.json"

// hookChange makes vfix-runtime an OCI hook of all containers. Unlike a runtime, no container remembers a hook, so that
// nothing is missing after uninstall. The timeout, in seconds, is longer than vfix-runtime works before it lets a
// container start unpatched.
func hookChange(_ *tree, _ engine, use usage) (Change, error) {
	return Change{Path: hookPath, Removed: use == unused, Text: `{
  "version": "1.0.0",
  "hook": {
    "path": "` + RuntimePath + `",
    "args": ["` + RuntimeName + `", "hook"],
    "timeout": 30
  },
  "when": {"always": true},
  "stages": ["createRuntime"]
}
`}, nil
}

// users names the containers of an engine that need the runtime.
func (t *tree) users(e engine) (all []string, err error) {
	if e.name == "docker" && filepath.Clean(t.root) == "/" {
		return dockerUsers()
	}
	if e.state == "" {
		return nil, nil
	}
	return t.running(e.state)
}

// running names the containers for which a containerd executes the program. A file runtime of each has its path
// (containerd, cmd/containerd-shim-runc-v2/runc, WriteRuntime). The state directories may be patterns.
func (t *tree) running(states ...string) (all []string, err error) {
	for _, state := range states {
		found, globErr := filepath.Glob(filepath.Join(t.at(state), "io.containerd.runtime.v2.task", "*", "*", "runtime"))
		for _, name := range found {
			if program, err := os.ReadFile(name); err == nil && string(program) == RuntimePath {
				all = append(all, filepath.Base(filepath.Dir(name)))
			}
		}
		err = errors.Join(err, globErr)
	}
	return all, err
}

// dockerUsers asks docker for the containers, running or not, that select the runtime.
func dockerUsers() ([]string, error) {
	const script = `command -v docker >/dev/null || exit 0
		all=$(docker ps --all --quiet) || exit
		[ -z "$all" ] || docker inspect --format='{{if eq .HostConfig.Runtime "` + Name + `"}}{{slice .Name 1}}{{end}}' $all`
	out, err := exec.Command("sh", "-c", script).Output()
	if err != nil {
		return nil, hinterr.With(fmt.Errorf("docker ps: %w", err), "start docker, so that it can list the containers that need %s", RuntimeName)
	}
	return strings.Fields(string(out)), nil
}
