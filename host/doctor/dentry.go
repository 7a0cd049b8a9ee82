// The kernel's cache of file names (dentries): one hash table for all containers, sized at boot. A neighbor that
// looks up names that do not exist fills it with negative dentries, and look-ups of all others then walk longer
// chains.

package doctor

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"vfix.dev/vfix/host/probe"
)

const (
	dentrySize   = 192 // bytes, struct dentry on x86-64
	floodMost    = 500_000
	floodPart    = 50 // a flood takes at most this part of the free memory
	slowdownWarn = 1.5
	slowdownFail = 3
)

func checkDentry(m *machine, c *Check, _ *Report) error {
	dir, err := m.scratch()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// The fields are all names, unused ones, …, negative ones (Documentation/admin-guide/sysctl/fs.rst).
	if f := strings.Fields(m.line("/proc/sys/fs/dentry-state")); len(f) > 4 {
		c.detail("%s names, %s of them of files that do not exist", f[0], f[4])
	}
	before, err := m.lookup(dir)
	if err != nil || m.quick {
		judgeDentry(c, before, 0, 0)
		return err
	}
	names := m.floodNames()
	during, err := m.flood(dir, names)
	judgeDentry(c, before, during, names)
	return err
}

// lookup returns the nanoseconds of a look-up of a missing name that the cache has.
func (m *machine) lookup(dir string) (float64, error) {
	rounds := "200"
	if m.quick {
		rounds = "50"
	}
	o, err := m.run("lookup", dir, "512", rounds)
	if err == nil && !o.OK() {
		err = fmt.Errorf("vfix-measure ended with %s", o)
	}
	return probe.Times(o.Stdout).Quiet("known"), err
}

// flood measures look-ups while a neighbor fills the cache.
func (m *machine) flood(dir string, names int) (ns float64, err error) {
	neighbor, err := os.MkdirTemp(dir, "flood-")
	if err != nil {
		return 0, err
	}
	said, stop, err := m.start(m.ctx, "flood", neighbor, strconv.Itoa(names))
	if err != nil {
		return 0, err
	}
	defer func() {
		_, stopped := stop()
		err = errors.Join(err, stopped)
	}()
	if _, err := said(); err != nil { // it has looked up all names once
		return 0, err
	}
	return m.lookup(dir)
}

// floodNames is how many names a flood may use: a small part of the free memory, of this host and of this cgroup.
func (m *machine) floodNames() int {
	const kilo = 1024
	available, _ := strconv.ParseFloat(strings.TrimSuffix(m.field("/proc/meminfo", "MemAvailable"), " kB"), 64)
	free := available * kilo
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if n, err := strconv.ParseFloat(m.line(path), 64); err == nil && n > 0 {
			free = min(free, n)
		}
	}
	return max(min(int(free/floodPart/dentrySize), floodMost), 1)
}

func judgeDentry(c *Check, before, during float64, names int) {
	c.figure("lookup_before", before, "ns")
	c.figure("lookup_during", during, "ns")
	c.figure("flood", float64(names), "names")
	if before == 0 {
		c.found(Skipped, "look-ups could not be measured")
		return
	}
	if during == 0 {
		c.found(OK, "a missing file name takes %s (not flooded)", nanoseconds(before))
		return
	}
	verdict := OK
	switch slower := during / before; {
	case slower >= slowdownFail:
		verdict = Fail
	case slower >= slowdownWarn:
		verdict = Warn
	}
	c.found(verdict, "a missing file name takes %s, and %s beside a busy neighbor", nanoseconds(before), nanoseconds(during))
	if verdict != OK {
		c.Do = "limit the memory of containers that look up many missing files: dentries count in their cgroup"
	}
	c.detail("the neighbor looks up %d names; all containers of this kernel share the cache", names)
}
