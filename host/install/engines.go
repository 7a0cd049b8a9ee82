// The engines: the file that each reads, how it rereads it, how one container is tried, and which containers need the
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
	{name: "docker", config: "/etc/docker/daemon.json", plan: planDocker,
		reload: "systemctl reload docker", restart: "systemctl restart docker", try: "docker run --rm --runtime=" + Name + " IMAGE"},
	{name: "podman", config: hookPath, plan: planHook, try: "podman run --rm IMAGE"},
	{name: "crio", config: hookPath, plan: planHook, try: "kubectl run try --rm -it --restart=Never --image=IMAGE"},
	{name: "containerd", config: "/etc/containerd/config.toml", plan: planContainerd, tasks: "/run/containerd/io.containerd.runtime.v2.task",
		reload: restartDaemon, restart: restartDaemon, try: ctr},
	{name: "k3s", config: "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", plan: planContainerd, tasks: rancherTasks,
		reload: restartK3s, restart: restartK3s, try: "k3s " + ctr},
	{name: "rke2", config: "/var/lib/rancher/rke2/agent/etc/containerd/config.toml", plan: planContainerd, tasks: rancherTasks,
		reload: restartRKE2, restart: restartRKE2, try: ctr},
	{name: "k0s", config: "/run/k0s/containerd-cri.toml", dropIn: "/etc/k0s/containerd.d/vfix.toml", plan: planContainerd,
		tasks: "/run/k0s/containerd/io.containerd.runtime.v2.task", reload: restartK0s, restart: restartK0s, try: "k0s " + ctr},
}

// Engines are the names of all engines.
func Engines() (all []string) {
	for _, e := range engines {
		all = append(all, e.name)
	}
	return all
}

// users names the containers of an engine that need the runtime.
func (t tree) users(e engine) (all []string, err error) {
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
func dockerUsers() ([]string, error) {
	const format = `--format={{if eq .HostConfig.Runtime "` + Name + `"}}{{slice .Name 1}}{{end}}`
	found, err := docker("ps", "--all", "--quiet")
	if err == nil && len(found) > 0 {
		found, err = docker(append([]string{"inspect", format}, found...)...)
	}
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		return nil, hinterr.With(fmt.Errorf("containers that select the runtime %s: %w", Name, err), "start docker, so that it can list them")
	}
	return found, nil
}

// docker runs a command of docker and returns the words that it prints.
func docker(args ...string) ([]string, error) {
	out, err := exec.Command("docker", args...).Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("docker %s: %s", args[0], strings.TrimSpace(string(e.Stderr)))
	}
	return strings.Fields(string(out)), err
}
