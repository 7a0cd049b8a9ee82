package probe

import "strings"

// PagePerms returns how a text of /proc/PID/maps (proc_pid_maps(5)) shows the vsyscall page, such as "r-xp"; "" if it is
// not mapped.
func PagePerms(maps []byte) string {
	const columns = 6
	for line := range strings.Lines(string(maps)) {
		if f := strings.Fields(line); len(f) >= columns && f[len(f)-1] == "[vsyscall]" {
			return f[1]
		}
	}
	return ""
}
