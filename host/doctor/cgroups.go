// Which control groups this host has, and how Java and old inits use them.

package doctor

import (
	"slices"
	"strings"

	"vfix.dev/vfix/internal/mounts"
)

// jvmControllers are those that a JDK must see enabled in /proc/cgroups before it takes any
// limit (hotspot, cgroupSubsystem_linux.cpp, determine_type, until JDK-8349988).
var jvmControllers = []string{"cpuset", "cpu", "cpuacct", "memory"}

// The trees of control groups that can be mounted.
const (
	groupsV1     = "v1"
	groupsV2     = "v2"
	groupsHybrid = "hybrid" // v1, and v2 without controllers for systemd's own use
)

// unawareJDKs are those that know v1 only: OpenJDK got v2 with 15 (JDK-8230305), 11.0.16 and 8u372.
const unawareJDKs = "JDKs before 8u372 and 11.0.16, and 12 to 14"

func checkCgroups(x *examination, c *Check) {
	version := cgroupVersion(x)
	c.fact("version", version)
	table := x.text("/proc/cgroups")
	listed := enabledControllers(table)
	missing := slices.DeleteFunc(slices.Clone(jvmControllers), func(name string) bool { return slices.Contains(listed, name) })
	c.fact("listed", strings.Join(listed, " "))
	c.fact("missing", strings.Join(missing, " "))
	if version == "" || table == "" {
		c.found(Skipped, "no control groups, or no /proc, are mounted here")
		c.Do = "run vfix doctor on the host"
		return
	}
	c.line("/proc/cgroups lists %s", strings.Join(listed, " "))
	if version == groupsV2 {
		available := x.line("/sys/fs/cgroup/cgroup.controllers")
		c.fact("available", available)
		c.line("/sys/fs/cgroup/cgroup.controllers lists %s", available)
	}
	judgeCgroups(c, version, missing)
}

func judgeCgroups(c *Check, version string, missing []string) {
	const tell = "'vfix scan IMAGE' finds such JDKs. Set JAVA_TOOL_OPTIONS='-XX:MaxRAM=BYTES -XX:ActiveProcessorCount=N' to their limits, or update the JDK"
	switch {
	case version == groupsV2 && len(missing) > 0:
		c.found(Fail, "cgroup v2, and /proc/cgroups does not list %s", strings.Join(missing, ", "))
		c.Means = "JDKs that read /proc/cgroups (8u372, 11.0.16, 15 and later, until 25 and the last updates of 17 and 21) size their heap by the memory of the host and are killed with status 137; so do " + unawareJDKs
		c.Do = "'vfix rebuild --fix java-cgroups IMAGE' fixes the first kind. " + tell
	case version == groupsV2:
		c.found(Warn, "cgroup v2, and /proc/cgroups lists what Java looks for")
		c.Means = unawareJDKs + ", know only v1: they size their heap by the memory of the host and are killed with status 137. systemd before 230 (CentOS 7, Debian 8) does not start as a container's init"
		c.Do = tell
	case slices.Contains(missing, "memory"):
		c.found(Warn, "cgroup mode %s, and the memory controller is off", version)
		c.Means = "containers have no memory limit: one of them can use all the memory of the host"
		c.Do = "boot without cgroup_disable=memory"
	default:
		c.found(OK, "cgroup mode %s: Java since 8u191 and old inits find their limits", version)
	}
}

// cgroupVersion finds from the mounts which trees there are; "" for none.
func cgroupVersion(x *examination) string {
	modes := map[string]string{}
	for _, m := range mounts.Read([]byte(x.text("/proc/self/mountinfo"))) {
		modes[m.FSType] = map[string]string{"cgroup": groupsV1, "cgroup2": groupsV2}[m.FSType]
	}
	if modes["cgroup"] != "" && modes["cgroup2"] != "" {
		return groupsHybrid
	}
	return modes["cgroup"] + modes["cgroup2"]
}

// enabledControllers reads /proc/cgroups (cgroups(7)): name, hierarchy, groups, enabled.
func enabledControllers(table string) (names []string) {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 4 && f[3] == "1" {
			names = append(names, f[0])
		}
	}
	return names
}
