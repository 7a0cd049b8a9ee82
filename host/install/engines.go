// The engines: the file that each reads, how it rereads it, and how one container is tried.

package install

import (
	"cmp"
	"encoding/json"
)

// usage says for which containers an engine uses the runtime.
type usage int

const (
	unused    usage = iota
	selected        // those that select it by its name; with a hook, all
	byDefault       // also those that select none
)

type engine struct {
	name   string
	config string // the file that vfix changes, or reads to find out where a file of its own belongs
	dropIn string // the file of its own, "" if config says where
	plan   func(t tree, e engine, use usage) (file, error)
	// reload makes the engine read the changed configuration, restart one from which the runtime was removed. Both are
	// empty if the engine looks at each start of a container.
	reload, restart string
	try             string // a command that runs one container
	tasks           string // directory of the running containers of its containerd
}

// Where containerds keep running containers (containerd, cmd/containerd-shim-runc-v2).
const (
	containerdTasks = "/run/containerd/io.containerd.runtime.v2.task"
	rancherTasks    = "/run/k3s/containerd/io.containerd.runtime.v2.task"
	k0sTasks        = "/run/k0s/containerd/io.containerd.runtime.v2.task"

	ctr = "ctr run --rm --runc-binary " + RuntimePath + " IMAGE try"
)

// engines are in the order of the help. The sources: https://docs.docker.com/reference/cli/dockerd/ (a reload adds
// runtimes and does not forget those that were removed), https://docs.k3s.io/advanced#configuring-containerd,
// https://docs.rke2.io/advanced, https://docs.k0sproject.io/stable/runtime/.
var engines = []engine{
	{name: "docker", config: "/etc/docker/daemon.json", plan: planDocker,
		reload: "systemctl reload docker", restart: "systemctl restart docker", try: "docker run --rm --runtime=" + Name + " IMAGE"},
	{name: "podman", plan: planHook, try: "podman run --rm IMAGE"},
	{name: "crio", plan: planHook, try: "kubectl run try --rm -it --restart=Never --image=IMAGE"},
	{name: "containerd", config: "/etc/containerd/config.toml", plan: planContainerd, tasks: containerdTasks,
		reload: "systemctl restart containerd", restart: "systemctl restart containerd", try: ctr},
	{name: "k3s", config: "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", plan: planContainerd, tasks: rancherTasks,
		reload: restartK3s, restart: restartK3s, try: "k3s " + ctr},
	{name: "rke2", config: "/var/lib/rancher/rke2/agent/etc/containerd/config.toml", plan: planContainerd, tasks: rancherTasks,
		reload: restartRKE2, restart: restartRKE2, try: ctr},
	{name: "k0s", config: "/run/k0s/containerd-cri.toml", dropIn: "/etc/k0s/containerd.d/vfix.toml", plan: planContainerd, tasks: k0sTasks,
		reload: restartK0s, restart: restartK0s, try: "k0s " + ctr},
}

const (
	restartK3s  = "systemctl restart k3s || systemctl restart k3s-agent"
	restartRKE2 = "systemctl restart rke2-server || systemctl restart rke2-agent"
	restartK0s  = "systemctl restart k0sworker || systemctl restart k0scontroller"
)

// Engines are the names of all engines.
func Engines() (all []string) {
	for _, e := range engines {
		all = append(all, e.name)
	}
	return all
}

// engineOf is the engine that the options name, with the configuration that they name.
func engineOf(o Options) engine {
	for _, e := range engines {
		if e.name == o.Engine {
			e.config = cmp.Or(o.Config, e.config)
			return e
		}
	}
	panic("install: unknown engine " + o.Engine) // the command checks the name
}

// hookPath is in the only directory that podman and CRI-O both search unless they are configured otherwise
// (https://github.com/containers/common/blob/main/pkg/hooks/docs/oci-hooks.5.md). Rootless podman searches it as well.
const hookPath = "/usr/share/containers/oci/hooks.d/99-vfix.json"

// hookSeconds is longer than vfix-runtime works before it lets a container start unpatched.
const hookSeconds = 30

// planHook makes vfix-runtime an OCI hook of all containers. Unlike a runtime, no container remembers a hook, so that
// nothing is missing after uninstall.
func planHook(_ tree, _ engine, use usage) (file, error) {
	if use == unused {
		return file{path: hookPath}, nil
	}
	type object = map[string]any
	text, err := json.MarshalIndent(object{
		"version": "1.0.0",
		"hook":    object{"path": RuntimePath, "args": []string{RuntimeName, "hook"}, "timeout": hookSeconds},
		"when":    object{"always": true},
		"stages":  []string{"createRuntime"},
	}, "", "  ")
	return file{path: hookPath, data: append(text, '\n')}, err
}
