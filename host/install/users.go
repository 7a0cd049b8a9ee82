// The containers that need the runtime: their shims execute it to stop and remove them, and docker to start them again.

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
func dockerUsers() (all []string, err error) {
	ids, err := docker("ps", "--all", "--quiet", "--no-trunc")
	if errors.Is(err, exec.ErrNotFound) || err == nil && len(ids) == 0 {
		return nil, nil
	}
	var lines []string
	if err == nil {
		lines, err = docker(slices.Concat([]string{"inspect", "--format", "{{.HostConfig.Runtime}}={{.Name}}"}, ids)...)
	}
	if err != nil {
		return nil, hinterr.With(fmt.Errorf("containers that select the runtime %s: %w", Name, err), "start docker, so that it can list them")
	}
	for _, line := range lines {
		if name, ok := strings.CutPrefix(line, Name+"=/"); ok {
			all = append(all, name)
		}
	}
	return all, nil
}

// docker runs a command of docker and returns the words that it prints.
func docker(args ...string) ([]string, error) {
	out, err := exec.Command("docker", args...).Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && len(e.Stderr) > 0 {
		err = errors.New(strings.TrimSpace(string(e.Stderr)))
	}
	return strings.Fields(string(out)), err
}
