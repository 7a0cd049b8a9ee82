// The kernel's cache of file names (dentries): one hash table for all containers, sized at boot. A container that looks
// up names that do not exist fills it with negative dentries, and look-ups of all others then walk longer chains.

package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vfix.dev/vfix/host/probe"
)

// How many times as long as a system call that does nothing a look-up may take: 3 to 8 times with short chains.
const (
	lookupWarn = 20
	lookupFail = 50
)

func checkDentry(m *machine, c *Check, _ *Report) error {
	dir, err := os.MkdirTemp("", ".vfix-doctor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t, err := m.times(nil, "syscall:time")
	if err != nil {
		return err
	}
	// The fields are all names, unused ones, …, negative ones (Documentation/admin-guide/sysctl/fs.rst).
	missing := 0.0
	if f := strings.Fields(m.line("/proc/sys/fs/dentry-state")); len(f) > 4 {
		missing, _ = strconv.ParseFloat(f[4], 64)
	}
	lookup, call := lookUps(dir).Quiet("known"), t.Quiet("syscall:time")
	c.figure("lookup", lookup, "ns")
	c.figure("syscall_time", call, "ns")
	c.figure("missing", missing, "names")
	c.found(lookupVerdict(lookup/call), "look-up of a missing file: %s; %.0f are cached", nanoseconds(lookup), missing)
	if c.Verdict != OK {
		c.Do = "limit the memory of containers that look up many missing files: dentries count in their cgroup"
	}
	return nil
}

// lookupVerdict judges a look-up by how many system calls take as long.
func lookupVerdict(calls float64) Verdict {
	switch {
	case calls >= lookupFail:
		return Fail
	case calls >= lookupWarn:
		return Warn
	}
	return OK
}

// lookUps measures look-ups of missing names that the cache has, in nanoseconds each.
func lookUps(dir string) probe.Samples {
	const names, rounds, batch = 512, 100, 64
	missing := make([]string, names)
	for i := range missing {
		missing[i] = filepath.Join(dir, fmt.Sprintf("missing-%d", i))
	}
	s := probe.Samples{}
	for round := range rounds {
		for i := 0; i < names; i += batch {
			start := time.Now()
			for _, name := range missing[i : i+batch] {
				_ = syscall.Access(name, 0)
			}
			if round > 0 { // the names are new to the cache in the first round
				s["known"] = append(s["known"], float64(time.Since(start))/batch)
			}
		}
	}
	return s
}
