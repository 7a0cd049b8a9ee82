// The engines: what vfix adds to the configuration of each, how it is reread, how one container is tried, and which
// containers need the runtime: their shims execute it to stop and remove them, and docker to start them again.

package install

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

type engine struct {
	name   string
	config string // the file that the engine reads
	// part is a file for the engine: its path and content. Without a path, the content belongs into config. nil: docker.
	part func(t *tree, e engine) (path, text string, err error)
	// reload makes the engine read the changed configuration, restart one from which the runtime was removed. Both are
	// empty if the engine looks at each start of a container.
	reload, restart string
	try             string // a command that runs one container
	// tasks is the directory of the running containers of its containerd (containerd, cmd/containerd-shim-runc-v2).
	tasks string
}

const (
	ctr           = "ctr run --rm --runc-binary " + RuntimePath + " IMAGE try"
	restartDaemon = "systemctl restart containerd"
	restartK3s    = "systemctl restart k3s || systemctl restart k3s-agent"
	restartRKE2   = "systemctl restart rke2-server || systemctl restart rke2-agent"
	restartK0s    = "systemctl restart k0sworker || systemctl restart k0scontroller"
	rancherTasks  = "/run/k3s/containerd/io.containerd.runtime.v2.task"
)

// engines are in the order of the help. The sources: https://docs.docker.com/reference/cli/dockerd/ (a reload adds
// runtimes and does not forget those that were removed), https://docs.k3s.io/advanced#configuring-containerd,
// https://docs.rke2.io/advanced, https://docs.k0sproject.io/stable/runtime/.
var engines = []engine{
	{name: "docker", config: "/etc/docker/daemon.json",
		reload: "systemctl reload docker", restart: "systemctl restart docker", try: "docker run --rm --runtime=" + Name + " IMAGE"},
	{name: "podman", config: hookPath, part: hookFile, try: "podman run --rm IMAGE"},
	{name: "crio", config: hookPath, part: hookFile, try: "kubectl run try --rm -it --restart=Never --image=IMAGE"},
	{name: "containerd", config: "/etc/containerd/config.toml", part: containerdPart, tasks: "/run/containerd/io.containerd.runtime.v2.task",
		reload: restartDaemon, restart: restartDaemon, try: ctr},
	{name: "k3s", config: "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", part: containerdPart, tasks: rancherTasks,
		reload: restartK3s, restart: restartK3s, try: "k3s " + ctr},
	{name: "rke2", config: "/var/lib/rancher/rke2/agent/etc/containerd/config.toml", part: containerdPart, tasks: rancherTasks,
		reload: restartRKE2, restart: restartRKE2, try: ctr},
	{name: "k0s", config: "/run/k0s/containerd-cri.toml", part: containerdPart, tasks: "/run/k0s/containerd/io.containerd.runtime.v2.task",
		reload: restartK0s, restart: restartK0s, try: "k0s " + ctr},
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

// hookFile makes vfix-runtime an OCI hook of all containers. Unlike a runtime, no container remembers a hook, so that
// nothing is missing after uninstall. The timeout, in seconds, is longer than vfix-runtime works before it lets a
// container start unpatched.
func hookFile(*tree, engine) (path, text string, err error) {
	return hookPath, `{
  "version": "1.0.0",
  "hook": {
    "path": "` + RuntimePath + `",
    "args": ["` + RuntimeName + `", "hook"],
    "timeout": 30
  },
  "when": {"always": true},
  "stages": ["createRuntime"]
}
`, nil
}

// users names the containers of an engine that need the runtime.
func (t *tree) users(e engine) (all []string, err error) {
	if e.name == "docker" && filepath.Clean(t.root) == "/" {
		return dockerUsers()
	}
	if e.tasks == "" {
		return nil, nil
	}
	// A file runtime of each container has the path of the program (containerd, cmd/containerd-shim-runc-v2/runc,
	// WriteRuntime).
	found, err := filepath.Glob(filepath.Join(t.at(e.tasks), "*", "*", "runtime"))
	for _, name := range found {
		if program, err := os.ReadFile(name); err == nil && string(program) == RuntimePath {
			all = append(all, filepath.Base(filepath.Dir(name)))
		}
	}
	return all, err
}

// dockerUsers asks docker for the containers, running or not, that select the runtime.
func dockerUsers() (all []string, err error) {
	const format = `--format={{if eq .HostConfig.Runtime "` + Name + `"}}{{slice .Name 1}}{{end}}`
	args := []string{"ps", "--all", "--quiet"}
	for range 2 {
		out, err := exec.Command("docker", args...).Output()
		all = strings.Fields(string(out))
		if errors.Is(err, exec.ErrNotFound) || err == nil && len(all) == 0 {
			return nil, nil
		}
		if err != nil {
			return nil, hinterr.With(fmt.Errorf("docker %s: %w", args[0], err), "start docker, so that it can list the containers that need %s", RuntimeName)
		}
		args = slices.Concat([]string{"inspect", format}, all)
	}
	return all, nil
}
