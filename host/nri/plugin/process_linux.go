// The first process of a container.

package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// processOf returns the ID of a process of a container, 0 for one that does not run. CRI-O before 1.36 does not
// report it (cri-o, internal/nri/container.go); there, it is looked for by the name of its control group.
func processOf(proc string, c *api.Container) (int, error) {
	if pid := c.GetPid(); pid != 0 {
		return int(pid), nil
	}
	if s := c.GetState(); s != api.ContainerState_CONTAINER_CREATED && s != api.ContainerState_CONTAINER_RUNNING || c.GetId() == "" {
		return 0, nil
	}
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "cgroup"))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		groups, err := os.ReadFile(file)
		if err != nil || !inGroupOf(string(groups), c.GetId()) {
			continue // the process has ended, or is another's
		}
		return strconv.Atoi(filepath.Base(filepath.Dir(file)))
	}
	return 0, fmt.Errorf("no process is in a control group of the container")
}

// inGroupOf reports whether the text of /proc/PID/cgroup names a container's group, or one below it: crio-ID of
// CRI-O's, crio-ID.scope with systemd. Its monitor is in crio-conmon-ID.
func inGroupOf(groups, id string) bool {
	for line := range strings.Lines(groups) {
		for name := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if strings.TrimSuffix(name, ".scope") == "crio-"+id {
				return true
			}
		}
	}
	return false
}
