package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/images/inventory"
	"vfix.dev/vfix/internal/hinterr"
)

// The vDSO as processors, kernels and boot options give it.
func TestVDSO(t *testing.T) {
	const allInside = "vdso:time 0/1000\nvdso:gettimeofday 0/1000\nvdso:realtime 0/1000\nvdso:monotonic 0/1000\nvdso:realtime_coarse 0/1000\nvdso:monotonic_coarse 0/1000\nvdso:getcpu 0/1000\n"
	check := func(runs, files map[string]string) Check {
		return examineRecorded(t, &recorded{root: "xen", runs: runs, files: files}, VDSO)[VDSO]
	}
	expect(t, check(map[string]string{"vdso": "status 4"}, nil), Fail, "there is no vDSO", "boot without vdso=0")
	expect(t, check(map[string]string{"vdso": "status 4"}, map[string]string{"/proc/cmdline": "vdso=0 quiet\n"}), Fail, "take vdso=0 off")
	expect(t, check(map[string]string{"entries": allInside}, nil), OK, "clock_gettime costs 310 ns and stays in the process", "symbols cannot be read")
	expect(t, check(map[string]string{"entries": "status 3"}, nil), OK, "kernel entries were not counted", "status 3")
	expect(t, check(map[string]string{"entries": "vdso:monotonic 1/1000\n"}, nil), Fail, "1 of 7 functions", "enters the kernel in 1 of 1000 calls")
	c := Check{Name: VDSO}
	judgeVDSO(&c, nil, []string{"__vdso_time", "__vdso_getcpu"})
	expect(t, c, Warn, "it has no __vdso_time, __vdso_getcpu", "newer kernel")
}

// The clock source and the reads of it.
func TestClock(t *testing.T) {
	const dir = clockDir
	for _, row := range []struct {
		runs, files map[string]string
		want        Verdict
		words       string
	}{
		{nil, map[string]string{dir + "current_clocksource": "tsc\n", dir + "available_clocksource": "tsc hpet\n"}, Fail, "tsc: every read is a system call"},
		{map[string]string{"entries": "status 3"}, map[string]string{dir + "current_clocksource": "hpet\n"}, Fail, "outside the processor"},
		{map[string]string{"entries": "status 3"}, map[string]string{dir + "current_clocksource": "tsc\n"}, OK, "tsc: a read costs 310 ns"},
		{map[string]string{"entries": "status 3", "time": "syscall:monotonic 200\n"}, map[string]string{dir + "current_clocksource": "tsc\n"}, Warn, "there is no vDSO"},
		{map[string]string{"entries": "status 3", "time": "status 3"}, map[string]string{dir + "current_clocksource": "tsc\n"}, Warn, "cannot be timed"},
		{map[string]string{"entries": "vdso:monotonic 0/9\n", "time": "syscall:monotonic 200\n"}, map[string]string{dir + "current_clocksource": "tsc\n"}, OK, "a read costs 200 ns"},
	} {
		if row.runs["entries"] != "" {
			row.runs["entries vdso:monotonic vdso:realtime"] = row.runs["entries"]
		}
		expect(t, examineRecorded(t, &recorded{root: "xen", runs: row.runs, files: row.files}, Clock)[Clock], row.want, row.words)
	}
	for available, want := range map[string]string{"xen kvm-clock tsc": "tsc", "xen kvm-clock": "kvm-clock", "hyperv_clocksource_tsc_page": "hyperv_clocksource_tsc_page", "hpet": "", "": ""} {
		if got := fasterSource(available); got != want {
			t.Errorf("%q: got %q, want %q", available, got, want)
		}
	}
}

// A filter's cost, which is measured in turn with calls without one.
func TestSeccomp(t *testing.T) {
	const bare = "syscall:monotonic 100\nsyscall:time 100\nsyscall:gettimeofday 100\nvdso:monotonic 20\n"
	check := func(filtered string, o Options, files map[string]string) Check {
		return examineRecorded(t, &recorded{root: "bare", Options: o, files: files, runs: map[string]string{"time": bare, "--filter": filtered}}, Seccomp)[Seccomp]
	}
	expect(t, check("syscall:monotonic 101\nsyscall:time 120\nsyscall:gettimeofday 110\n", Options{}, nil), OK, "100 ns without a filter, 101 ns under one", "docker's default profile")
	expect(t, check("syscall:monotonic 110\nsyscall:time 150\n", Options{Quick: true}, nil), Warn, "50% more at most")
	expect(t, check("syscall:gettimeofday 250\n", Options{}, map[string]string{"/proc/self/status": "Name:\tx\nSeccomp_filters:\t2\n"}), Fail, "150% more at most", "under 2 seccomp filter(s)")
	expect(t, check("syscall:time 100\n", Options{}, map[string]string{"/proc/self/status": "Seccomp_filters:\t0\n"}), OK, "!filter(s)")
	expect(t, check("status 3", Options{}, nil), Skipped, "no seccomp filter could be set here (status 3)", "outside of the sandbox")
	expect(t, check("syscall:time 100\n", Options{Profile: []byte(`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["time", "clock_gettime"], "action": "SCMP_ACT_ALLOW"}]}`)}, nil),
		Fail, "the profile forbids gettimeofday", "the given profile")
	expect(t, check("", Options{Profile: []byte(`[]`)}, nil), Skipped, "seccomp profile")
}

// The cache of names before, during and after a flood.
func TestDentryFlood(t *testing.T) {
	const meminfo = "MemTotal:        1048576 kB\nMemFree:   100 kB\nMemAvailable:     524288 kB\n"
	files := map[string]string{"/proc/sys/fs/dentry-state": "10000 8000 45 0 2000 0\n", "/proc/meminfo": meminfo}
	check := func(r recorded) Check {
		r.root, r.files = "bare", files
		return examineRecorded(t, &r, Dentry)[Dentry]
	}
	expect(t, check(recorded{}), OK, "0.1 names in a bucket", "computed from the memory's size", "55924 names")
	expect(t, check(recorded{Options: Options{Quick: true}}), OK, "--quick")
	expect(t, check(recorded{noScratch: errNoScratch}), OK, "latency was not measured: no directory")
	expect(t, check(recorded{runs: map[string]string{"lookup": "status 3"}}), OK, "lookups could not be measured: status 3")
	expect(t, check(recorded{runs: map[string]string{"lookup": "new 4\n"}}), OK, "lookups could not be measured: ok")
	for _, limit := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		files[limit] = "96000000\n"
		expect(t, check(recorded{}), OK, "10000 names")
		files[limit] = "max\n"
	}
	files["/proc/meminfo"] = "MemTotal: 1048576 kB\nMemAvailable: 999999999 kB\n"
	expect(t, check(recorded{}), OK, "500000 names")
	files["/proc/meminfo"] = "MemTotal: x kB\n"
	expect(t, check(recorded{}), OK, "cache's size is not known", "with 1 names")
	for _, row := range []struct {
		chain, before, during float64
		want                  Verdict
	}{
		{1.9, 100, 149, OK}, {2, 100, 149, Warn}, {7.9, 100, 149, Warn}, {8, 100, 149, Fail},
		{1, 100, 150, Warn}, {1, 100, 299, Warn}, {1, 100, 300, Fail},
	} {
		c := Check{Name: Dentry}
		for name, value := range map[string]float64{"chain": row.chain, "lookup_before": row.before, "lookup_during": row.during, "lookup_after": row.before} {
			c.figure(name, value, "")
		}
		if judgeDentry(&c); c.Verdict != row.want || (c.Do != "") != (row.want != OK) {
			t.Errorf("%+v: got %+v", row, c)
		}
	}
	c := Check{Name: Dentry}
	judgeDentry(&c)
	expect(t, c, Skipped, "the cache's size is not known, and latency could not be measured")
	c = Check{Name: Dentry}
	c.figure("chain", 1, "")
	c.figure("chain_during", chainFail, "")
	judgeDentry(&c)
	expect(t, c, Warn, "1.0 names in a bucket")
}

// The number of buckets: from the log, from the command line, or from the memory's size.
func TestHashBuckets(t *testing.T) {
	const line = "Dentry cache hash table entries: "
	for _, row := range []struct {
		log, cmdline, memory string
		want                 float64
		from                 string
	}{
		{line + "1024 (order: 1)\n", "dhash_entries=99\n", "MemTotal: 1048576 kB\n", 1024, "/dev/kmsg"},
		{line + "1 (order: 1)\n", "", "", 1, "/dev/kmsg"},
		{line + "0 (order: 1)\n", "dhash_entries=99\n", "", 128, "the boot option dhash_entries"},
		{line + "many\n", "dhash_entries=0x40\n", "", 64, "the boot option dhash_entries"},
		{"", "dhash_entries=1\n", "", 1, "the boot option dhash_entries"},
		{"", "dhash_entries=0\n", "MemTotal: 1048576 kB\n", 131072, "computed from the memory's size"},
		{"", "dhash_entries=x\n", "MemTotal: 4 kB\n", 1, "computed from the memory's size"},
		{"", "", "MemTotal: -4 kB\n", 0, "unknown"},
		{"", "", "MemTotal: 0 kB\n", 0, "unknown"},
		{"", "", "MemFree: 7 kB\n", 0, "unknown"},
	} {
		r := &recorded{t: t, root: "testdata/bare", files: map[string]string{"/kernel.log": row.log, "/proc/cmdline": row.cmdline, "/proc/meminfo": row.memory}}
		if got, from := (&examination{machine: r, ctx: t.Context()}).hashBuckets(); got != row.want || from != row.from {
			t.Errorf("%+v: got %v from %s", row, got, from)
		}
	}
	for state, want := range map[string]bool{"1 2 3 4 5": true, "1 2 3 4 5 6": true, "1 2 3 4": false, "": false, "1 2 3 4 x": false, "-1 2 3 4 5": false, "0 0 0 0 0 0": true, "NaN 2 3 4 5": false} {
		r := &recorded{root: "testdata/bare", files: map[string]string{"/proc/sys/fs/dentry-state": state + "\n"}}
		if s, ok := (&examination{machine: r}).dentryState(); ok != want || ok && state[0] == '1' && s != (dentryState{1, 2, 5}) {
			t.Errorf("%q: got %+v, %v", state, s, ok)
		}
	}
}

// The configuration of a kernel, where distributions keep it.
func TestKernelConfig(t *testing.T) {
	const amd64 = "CONFIG_X86_64=y\n"
	for _, row := range []struct {
		release, path, text string
		want                kernelConfig
	}{
		{"6.1", "/proc/config.gz", "no gzip", kernelConfig{}},
		{"6.1", "/boot/config-6.1", amd64 + "CONFIG_LEGACY_VSYSCALL_EMULATE=y\n", kernelConfig{"/boot/config-6.1", true, modeEmulate}},
		{"6.1", "/lib/modules/6.1/config", amd64 + "CONFIG_LEGACY_VSYSCALL_NATIVE=y\n", kernelConfig{"/lib/modules/6.1/config", true, modeNative}},
		{"6.1", "/usr/lib/modules/6.1/config", amd64 + "CONFIG_LEGACY_VSYSCALL_NONE=y\n", kernelConfig{"/usr/lib/modules/6.1/config", true, modeNone}},
		{"6.1", "/boot/config-6.1", amd64 + "  CONFIG_LEGACY_VSYSCALL_XONLY=y  \n# CONFIG_X86_VSYSCALL_EMULATION is not set\n", kernelConfig{"/boot/config-6.1", false, modeXonly}},
		{"6.1", "/boot/config-6.1", "CONFIG_ARM64=y\n", kernelConfig{}},
		{"6.1/x", "/boot/config-6.1/x", amd64, kernelConfig{}},
		{"", "/boot/config-", amd64, kernelConfig{}},
	} {
		r := &recorded{root: "testdata/bare", files: map[string]string{"/proc/sys/kernel/osrelease": row.release + "\n", row.path: row.text}}
		if got := (&examination{machine: r}).kernelConfig(); got != row.want {
			t.Errorf("%s of %s: got %+v, want %+v", row.path, row.release, got, row.want)
		}
	}
	for release, want := range map[string]bool{"3.10.0-1160.el7": true, "4.16.1": true, "4.17.0": false, "5.0": false, "": true, "x": true} {
		if got := mayBeNative(release); got != want {
			t.Errorf("%s: got %v", release, got)
		}
	}
}

// Times for people.
func TestNanoseconds(t *testing.T) {
	for ns, want := range map[float64]string{
		0: "0.0 ns", 9.94: "9.9 ns", 10: "10 ns", 9999: "9999 ns", 10_000: "10 µs", 9_999_000: "9999 µs", 10_000_000: "10 ms", 2.5e9: "2500 ms",
	} {
		if got := nanoseconds(ns); got != want {
			t.Errorf("%v: got %s, want %s", ns, got, want)
		}
	}
}

// A check that needs an engine, or is not asked for, says so, and only the chosen ones are made.
func TestNotMade(t *testing.T) {
	var started []string
	r := &recorded{root: "bare", Options: Options{Started: func(name string) { started = append(started, name) }}}
	all := examineRecorded(t, r, Schema1, Policy, Containers)
	for _, name := range []string{Schema1, Policy, Containers} {
		expect(t, all[name], Skipped, "not looked for")
	}
	if got := strings.Join(started, " "); got != "schema1 policy containers" {
		t.Errorf("got %s", got)
	}
	held := inventory.Inventory{Held: []inventory.Held{{Name: "redis:2.8.22", Sites: 3, Files: 2}}}
	for _, row := range []struct {
		err   error
		quick bool
		runs  map[string]string
		want  Verdict
		words string
	}{
		{nil, true, nil, Skipped, "--quick"},
		{nil, false, nil, Warn, "they run here, slowly"},
		{nil, false, map[string]string{"probe page:time": "signal 11"}, Fail, "they crash on this host"},
		{hinterr.Errorf(hinterr.ErrNoDaemon, "no engine answers"), false, nil, Skipped, "DOCKER_HOST"},
		{errors.New("odd"), false, nil, Skipped, "odd"},
	} {
		find := func(context.Context) (*inventory.Inventory, error) { return &held, row.err }
		r := &recorded{root: "bare", runs: row.runs, Options: Options{Quick: row.quick, Containers: find}}
		expect(t, examineRecorded(t, r, Containers)[Containers], row.want, row.words)
	}
	at := time.Date(2012, 12, 31, 0, 0, 0, 0, time.UTC) // before the first docker
	stock := func(context.Context) ([]string, []inventory.Stocked, error) {
		return nil, []inventory.Stocked{{Name: "odd", Created: at}, {Name: "new", Created: docker110}, {Name: "first", Created: at.AddDate(0, 0, 1)}}, nil
	}
	expect(t, examineRecorded(t, &recorded{root: "bare", Options: Options{Stock: stock}}, Schema1)[Schema1], Warn, "1 of 3 images", "first, created 2013-01-01")
	report := Report{Checks: []Check{{Name: "a", Verdict: Fail}, {Name: "b", Verdict: Warn}, {Name: "c", Verdict: Fail}}}
	if got := strings.Join(report.Failed(), " "); got != "a c" {
		t.Errorf("failed: got %s", got)
	}
}

// A crash in the log of the kernel, and the container of its process.
func TestKernelLogLines(t *testing.T) {
	const container = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	crash := func(program, pid string) string {
		return "[   61.120441] " + program + "[" + pid + "] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffd4a0b2e98 ax:ffffffffff600400 si:7ffd4a0b3f5c di:0\n"
	}
	files := map[string]string{"/kernel.log": "[    0.1] Linux version 6.1\n"}
	check := func() Check {
		return examineRecorded(t, &recorded{root: "bare", files: files}, KernelLog)[KernelLog]
	}
	expect(t, check(), OK, "shows no vsyscall crash")
	files["/kernel.log"] = crash("sh", "512") + crash("old", "7") + crash("vfix-measure", "9")
	files["/proc/512/comm"], files["/proc/512/cgroup"] = "sh\n", "0::/docker-"+container+".scope\n"
	expect(t, check(), Fail, "2 processes crashed", "sh[512]", "still running in container 0123456789ab", "1 lines are of vfix's own probes", "!vfix-measure[9]")
	files["/proc/7/comm"], files["/proc/7/cgroup"] = "old\n", "0::/user.slice\n"
	expect(t, check(), Fail, "still running, in no container")
	files["/proc/7/cgroup"] = ""
	expect(t, check(), Fail, "still running")
	files["/proc/7/comm"] = "new\n"
	expect(t, check(), Fail, "!in no container")
}
