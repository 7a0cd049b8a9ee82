// How many files a process in a container may have open: programs that close all possible files need a system
// call for each.

package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Closing all descriptors takes this many seconds from which the check warns and fails. Python 2
// needs about ten times as long as the system calls.
const (
	closeWarn = 1.0
	closeFail = 10.0
)

// engineProcesses hand their limit on to the containers that they start, by /proc/PID/comm, which has
// at most 15 bytes.
var engineProcesses = []string{"dockerd", "containerd", "containerd-shim", "crio", "conmon", "k3s-server", "k3s-agent", "rke2", "k0s", "podman"}

// limitedProcess is a process that shows the limit of containers.
type limitedProcess struct {
	name  string
	files uint64
}

func checkNofile(x *examination, c *Check) {
	own, ok := openFiles(x, "self")
	if !ok {
		c.found(Skipped, "/proc is not mounted")
		return
	}
	all := containerLimits(x)
	worst := limitedProcess{"vfix itself", own}
	if len(all) == 0 {
		c.note("no container or container engine is running: this is the limit of vfix itself; containers may have another")
	}
	for i, p := range all {
		if i == 0 || p.files > worst.files {
			worst = p
		}
	}
	c.fact("source", worst.name)
	c.figure("files", float64(worst.files), "files")
	t, _ := x.times(nil, "syscall:time")
	ns, _ := t.Quiet("syscall:time")
	seconds := float64(worst.files) * ns / 1e9
	c.figure("close_all", seconds, "seconds")
	found := fmt.Sprintf("limit of %d open files (%s): closing all of them takes %s", worst.files, worst.name, nanoseconds(seconds*1e9))
	switch {
	case seconds >= closeFail:
		c.found(Fail, "%s", found)
	case seconds >= closeWarn:
		c.found(Warn, "%s", found)
	default:
		c.found(OK, "%s", found)
		return
	}
	c.Means = "yum, rpm, Python 2 and many old daemons close every possible file before they start a program: they seem to hang at 100% CPU"
	c.Do = "run containers with docker run --ulimit nofile=1024:524288, or set \"default-ulimits\" in /etc/docker/daemon.json; for other engines, set LimitNOFILE=1024:524288 in their systemd unit"
}

// containerLimits lists the processes in containers, and the engines, with their limits.
func containerLimits(x *examination) []limitedProcess {
	names, _ := x.list("/proc")
	var inside, engines []limitedProcess
	for _, pid := range names {
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		comm := x.line("/proc/" + pid + "/comm")
		in := containerOf(x.text("/proc/"+pid+"/cgroup")) != ""
		if !in && !slices.Contains(engineProcesses, comm) {
			continue
		}
		files, ok := openFiles(x, pid)
		switch {
		case ok && in:
			inside = append(inside, limitedProcess{fmt.Sprintf("%s[%s], in a container", comm, pid), files})
		case ok:
			engines = append(engines, limitedProcess{fmt.Sprintf("%s[%s]", comm, pid), files})
		}
	}
	return append(inside, engines...)
}

// openFiles reads the soft limit of a process. Source: proc_pid_limits(5).
func openFiles(x *examination, pid string) (uint64, bool) {
	for line := range strings.Lines(x.text("/proc/" + pid + "/limits")) {
		if values, ok := strings.CutPrefix(line, "Max open files"); ok {
			if f := strings.Fields(values); len(f) > 0 {
				n, err := strconv.ParseUint(f[0], 10, 64)
				return n, err == nil
			}
		}
	}
	return 0, false
}
