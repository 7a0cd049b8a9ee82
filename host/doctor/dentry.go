// The kernel's cache of file names (dentries): one hash table for all containers, sized at
// boot. A neighbor that looks up names that do not exist fills it with negative dentries; everybody's
// look-ups then walk longer chains, in memory that is not in the processor's cache.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"strconv"
	"strings"

	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/internal/hinterr"
)

const (
	dentrySize = 192 // bytes, struct dentry on x86-64
	pageSize   = 4096
	// hashScale: one bucket for each 2^13 bytes of memory (fs/dcache.c, dcache_init); from 64 GiB on, each
	// fourfold increase of memory doubles that (mm/mm_init.c, alloc_large_system_hash).
	hashScale     = 13
	adaptFrom     = 64 << 30
	floodMost     = 500_000 // names
	floodPart     = 50      // a flood takes at most this part of the free memory
	lookupNames   = "512"
	chainWarn     = 2 // entries a bucket; the kernel plans for one
	chainFail     = 8
	slowdownWarn  = 1.5
	slowdownFail  = 3
	enoughRounds  = "200"
	quickRounds   = "50"
	hashTableLine = "Dentry cache hash table entries: "
)

// dentryState is /proc/sys/fs/dentry-state (Documentation/admin-guide/sysctl/fs.rst).
type dentryState struct{ all, unused, negative float64 }

func (x *examination) dentryState() (s dentryState, ok bool) {
	f := strings.Fields(x.line("/proc/sys/fs/dentry-state"))
	if len(f) < 5 {
		return s, false
	}
	for i, v := range map[int]*float64{0: &s.all, 1: &s.unused, 4: &s.negative} {
		n, err := strconv.ParseFloat(f[i], 64)
		if err != nil || !(n >= 0) {
			return s, false
		}
		*v = n
	}
	return s, true
}

func checkDentry(x *examination, c *Check) {
	before, ok := x.dentryState()
	if !ok {
		c.note("/proc/sys/fs/dentry-state is not readable: the cache's size is not known")
	}
	buckets, source := x.hashBuckets()
	c.fact("hash_size_from", source)
	if ok {
		c.figure("dentries", before.all, "entries")
		c.figure("dentries_unused", before.unused, "entries")
		c.figure("dentries_negative", before.negative, "entries")
		c.line("%.0f names, %.0f of them of files that do not exist", before.all, before.negative)
	}
	if buckets > 0 {
		c.figure("hash_buckets", buckets, "buckets")
		c.line("a table of %.0f buckets (%s)", buckets, source)
		if ok {
			c.figure("chain", before.all/buckets, "entries per bucket")
		}
	}
	dir, remove, err := x.scratch(x.FloodDir)
	if err != nil {
		c.note("latency was not measured: %v", err)
	} else {
		defer func() {
			if err := remove(); err != nil {
				c.note("the flood's directory could not be removed: %v", err)
			}
		}()
		x.lookups(c, dir, buckets)
	}
	judgeDentry(c)
}

// lookups measures a quiet neighborhood, one with a flood, and the time after.
func (x *examination) lookups(c *Check, dir string, buckets float64) {
	x.lookup(c, dir, "before")
	if x.Quick {
		c.note("the flood test was skipped (--quick)")
		return
	}
	names := x.floodNames()
	if err := x.flood(c, dir, names, buckets); err != nil {
		must(context.Cause(x.ctx))
		c.note("the flood test failed: %v", err)
		return
	}
	c.figure("flood", float64(names), "names")
	x.lookup(c, dir, "after")
}

// flood measures while a neighbor fills the cache with names.
func (x *examination) flood(c *Check, dir string, names int, buckets float64) (err error) {
	neighbor, remove, err := x.scratch(dir)
	must(err)
	defer func() { err = errors.Join(err, remove()) }() // and their dentries with it
	said, stop, err := x.start(x.ctx, "flood", neighbor, strconv.Itoa(names))
	must(err)
	defer func() {
		o, serr := stop()
		if err = errors.Join(err, serr); err == nil && !o.OK() {
			err = errors.New(o.String())
		}
	}()
	if _, err := said(); err != nil { // the names are all in the cache
		return err
	}
	if during, ok := x.dentryState(); ok && buckets > 0 {
		c.figure("chain_during", during.all/buckets, "entries per bucket")
		c.figure("dentries_negative_during", during.negative, "entries")
	}
	x.lookup(c, dir, "during")
	return nil
}

// lookup measures look-ups of missing names that were looked up before.
func (x *examination) lookup(c *Check, dir, when string) {
	rounds := enoughRounds
	if x.Quick {
		rounds = quickRounds
	}
	o := x.run(nil, "lookup", dir, lookupNames, rounds)
	t := probe.Times(o.Stdout)
	ns, ok := t.Quiet("known")
	if !o.OK() || !ok {
		c.note("lookups could not be measured: %s", o)
		return
	}
	const tail = 0.99
	median, _ := t.Median("known")
	slowest, _ := t.Quantile("known", tail)
	c.figure("lookup_"+when, ns, "ns")
	c.figure("lookup_"+when+"_median", median, "ns")
	c.figure("lookup_"+when+"_p99", slowest, "ns")
	c.line("%-6s  a missing name: %s undisturbed, %s in the middle, %s in the slowest hundredth",
		when, nanoseconds(ns), nanoseconds(median), nanoseconds(slowest))
}

// floodNames is how many names a flood may use: a small part of the free memory, on this host and in this
// cgroup.
func (x *examination) floodNames() int {
	free := x.meminfo("MemAvailable")
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if n, err := strconv.ParseFloat(x.line(path), 64); err == nil && n > 0 {
			free = min(free, n)
		}
	}
	return max(min(int(free/floodPart/dentrySize), floodMost), 1)
}

// meminfo returns a field of /proc/meminfo in bytes, 0 without one.
func (x *examination) meminfo(field string) float64 {
	n, err := strconv.ParseFloat(strings.TrimSuffix(x.field("/proc/meminfo", field), " kB"), 64)
	if err != nil || !(n >= 0) {
		return 0
	}
	return n * 1024
}

// hashBuckets is the size of the hash table: as the kernel logged at boot, else computed as the kernel does;
// source says which.
func (x *examination) hashBuckets() (buckets float64, source string) {
	lines, from, _ := x.kernelLog(x.ctx)
	for _, l := range lines {
		if _, rest, ok := strings.Cut(l.Text, hashTableLine); ok {
			digits, _, _ := strings.Cut(rest, " ")
			if n, err := strconv.ParseFloat(digits, 64); err == nil && n >= 1 {
				return n, from
			}
		}
	}
	if option := bootOption(x.line("/proc/cmdline"), "dhash_entries"); option != "" {
		if n, err := strconv.ParseUint(option, 0, 32); err == nil && n > 0 {
			return float64(roundUp(n)), "the boot option dhash_entries"
		}
	}
	memory := x.meminfo("MemTotal")
	if memory == 0 {
		return 0, "unknown"
	}
	return estimateBuckets(uint64(memory)), "computed from the memory's size"
}

// estimateBuckets is how many buckets the kernel makes for so much memory, in bytes.
func estimateBuckets(memory uint64) float64 {
	scale := hashScale
	for adapt := uint64(adaptFrom); adapt < memory && adapt <= 1<<60; adapt <<= 2 {
		scale++
	}
	return float64(roundUp(max(memory>>scale, 1)))
}

// roundUp is the next power of two; n > 0.
func roundUp(n uint64) uint64 { return 1 << bits.Len64(n-1) }

func judgeDentry(c *Check) {
	chain, known := c.value("chain")
	before, ok1 := c.value("lookup_before")
	during, ok2 := c.value("lookup_during")
	after, _ := c.value("lookup_after")
	names, _ := c.value("flood")
	long, _ := c.value("chain_during")
	c.Means = "all containers of this kernel share this cache: one that looks for many missing names slows file access for all"
	found := "the cache's size is not known"
	if known {
		found = fmt.Sprintf("%.1f names in a bucket", chain)
	}
	if ok1 {
		found += fmt.Sprintf("; a missing name takes %s", nanoseconds(before))
	}
	slowdown := 0.0
	if ok1 && ok2 {
		slowdown = during / before
		c.figure("slowdown", slowdown, "ratio")
		found += fmt.Sprintf(", and %s while a neighbor floods it with %.0f names (%.1f in a bucket), %s after it", nanoseconds(during), names, long, nanoseconds(after))
	}
	switch {
	case !known && !ok1:
		c.found(Skipped, "%s, and latency could not be measured", found)
	case chain >= chainFail || slowdown >= slowdownFail:
		c.found(Fail, "%s", found)
		c.Do = "find who fills it: restart that container, or 'echo 2 > /proc/sys/vm/drop_caches' as root; limit its memory, because dentries count in its cgroup; boot with a larger dhash_entries="
	case chain >= chainWarn || long >= chainFail || slowdown >= slowdownWarn:
		c.found(Warn, "%s", found)
		c.Do = "limit the memory of containers, because dentries count in their cgroup"
	default:
		c.found(OK, "%s", found)
	}
}

// errNoScratch: there is no directory whose missing names the kernel keeps.
var errNoScratch = hinterr.Errorf(fs.ErrNotExist, "no directory on a disk to write to")
