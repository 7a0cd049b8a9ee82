package doctor

import (
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/rewriter/find"
)

// TestDied: the kernel's lines about a call of the page, in different logs.
func TestDied(t *testing.T) {
	const (
		call    = "vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffd4a0b2e98 ax:ffffffffff600400 si:7ffd4a0b3f5c di:0"
		segv    = "segfault at ffffffffff600400 ip ffffffffff600400 sp 00007ffd4a0b2e98 error 15 likely on CPU 2 (core 1, socket 0)"
		another = "segfault at 0 ip 00005581c0de1139 sp 00007ffd4a0b2e98 error 4 in a[5581c0de1000+1000]"
	)
	for _, c := range []struct {
		line, program string
		pid           int
		ip            uint64
		when          string
	}{
		{"bash[123] " + call, "bash", 123, 0xffffffffff600400, ""},
		{"bash[123]: " + segv, "bash", 123, 0xffffffffff600400, ""},
		{"[   61.120441] bash[123]: " + segv, "bash", 123, 0xffffffffff600400, "61.120441"},
		{"Nov 21 21:14:17 host kernel: [   61.120441] bash[123] " + call, "bash", 123, 0xffffffffff600400, "Nov 21 21:14:17"},
		{"2026-11-21T21:14:17+0000 host kernel: bash[123] " + call, "bash", 123, 0xffffffffff600400, "2026-11-21T21:14:17+0000"},
		{"[Sat Nov 21 21:14:17 2026] bash[123] " + call, "bash", 123, 0xffffffffff600400, "Sat Nov 21 21:14:17 2026"},
		{"my [odd] name[7] " + call, "my [odd] name", 7, 0xffffffffff600400, ""},
		{"traps: old[9] general protection fault ip:ffffffffff600000 sp:7ffd4a0b2e98 error:0", "old", 9, 0xffffffffff600000, ""},
		{"old[9] general protection ip:ffffffffff600800 sp:7ffd4a0b2e98 error:0", "old", 9, 0xffffffffff600800, ""},
		{"old[9]: segfault at ffffffffff600000 rip ffffffffff600000 rsp 00007ffedaca68d8 error 14", "old", 9, 0xffffffffff600000, ""},                                                                      // 2.6
		{"old[9] misaligned vsyscall (exploit attempt or buggy program) -- look up the vsyscall kernel parameter if you need a workaround ip:ffffffffff600123 cs:33 sp:7ff0 ax:0 si:0 di:0", "", 0, 0, ""}, // a bad jump
		{`audit: type=1326 audit(1700000000.123:456): auid=0 pid=12 comm="sh" exe="/bin/sh" sig=31 arch=c000003e syscall=201 compat=0 ip=0xffffffffff600400 code=0x80000000`, "sh", 12, 0xffffffffff600400, "1700000000.123"},
		{"12,1234,61120441,-;bash[123] " + call, "", 0, 0, ""}, // a program wrote it
		{`4,1234,61120441,-;ba\x09sh[123] ` + call, "ba\tsh", 123, 0xffffffffff600400, "61.120 s after boot"},
		{"bash[1] vsyscall fault (exploit attempt?) ip:ffffffffff600800 cs:33 sp:7ff0 ax:0 si:0 di:1", "", 0, 0, ""},
		{`audit: type=1326 audit(1.2:3): pid=12 comm="sh" exe="/bin/sh" sig=31 ip=0x401000 code=0x80000000`, "", 0, 0, ""},
		{"a[1]: " + another, "", 0, 0, ""},
		{"bash[x] " + call, "", 0, 0, ""},
		{"bash[-1] " + call, "", 0, 0, ""},
		{"bash " + call, "", 0, 0, ""},
		{"bash[1] vsyscall attempted with vsyscall=none ip:zz", "", 0, 0, ""},
		{"", "", 0, 0, ""},
	} {
		var e diagnose.Crash
		if l, ours := kernellog.Strip(c.line + "\n"); ours {
			diagnose.OfKernel([]kernellog.Line{l}, func(d *diagnose.Crash) { e = *d })
		}
		if ok := e.Kind.Vsyscall(); ok != (c.pid > 0) || ok && (e.Program != c.program || e.PIDs[0] != c.pid || e.IP != c.ip || e.When != c.when) {
			t.Errorf("%s: got %+v, %v", c.line, e, ok)
		}
		// vfix diagnose says the same of the line.
		if r, err := diagnose.Text("line", strings.NewReader(c.line+"\n"), diagnose.Options{}); c.line != "" && (err != nil || slices.ContainsFunc(r.Crashes, func(d *diagnose.Crash) bool { return d.Kind.Vsyscall() }) != (c.pid > 0)) {
			t.Errorf("%s: diagnose: got %+v, %v", c.line, r, err)
		}
	}
}

func TestContainerOf(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for cgroup, want := range map[string]string{
		"0::/system.slice/docker-" + id + ".scope\n":                             id,
		"12:pids:/docker/" + id + "\n11:cpu:/\n":                                 id,
		"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope": id,
		"0::/kubepods/besteffort/pod1/" + id:                                     id,
		"0::/machine.slice/libpod-" + id + ".scope/container":                    id,
		"0::/user.slice/user-0.slice\n":                                          "",
		"0::/docker/" + id[1:] + "\n":                                            "",
		"0::/docker/" + strings.Repeat("g", 64):                                  "",
		"":                                                                       "",
	} {
		if got := containerOf(cgroup); got != want {
			t.Errorf("%q: got %q, want %q", cgroup, got, want)
		}
	}
}

// TestWhereabouts: a process that lives, in a container; a pid that is another's by now.
func TestWhereabouts(t *testing.T) {
	id := strings.Repeat("ab", 32)
	x := &examination{machine: &recorded{t: t, root: "testdata/bare", files: map[string]string{
		"/proc/5/comm": "bash\n", "/proc/5/cgroup": "0::/docker/" + id + "\n",
		"/proc/6/comm": "init\n", "/proc/7/comm": "sh\n", "/proc/7/cgroup": "0::/\n",
	}}}
	for _, c := range []struct {
		program string
		pid     int
		want    string
	}{
		{"bash", 5, "; still running in container abababababab"}, {"bash", 6, ""}, {"bash", 8, ""}, {"sh", 7, "; still running, in no container"},
	} {
		if got := x.whereabouts(c.program, c.pid); got != c.want {
			t.Errorf("%s[%d]: got %q, want %q", c.program, c.pid, got, c.want)
		}
	}
}

// TestOwnProbes: vfix's own calls of the page are not crashes.
func TestOwnProbes(t *testing.T) {
	log := "[1.0] vfix-measure[9]: segfault at ffffffffff600400 ip ffffffffff600400 sp 0 error 15\n"
	c := examineRecorded(t, &recorded{root: "bare", files: map[string]string{"/kernel.log": log}}, KernelLog)[KernelLog]
	expect(t, c, OK, "the kernel log (since 1.0) shows no vsyscall crash", "1 lines are of vfix's own")
	log = strings.ReplaceAll(log, "vfix-measure", "other")
	c = examineRecorded(t, &recorded{root: "bare", files: map[string]string{"/kernel.log": log}}, KernelLog)[KernelLog]
	expect(t, c, Fail, "1 process crashed", "other[9]", "!own probes", "!seccomp filter, ")
	log += `audit: type=1326 audit(1.2:3): pid=12 comm="sh" exe="/bin/sh" sig=31 ip=0xffffffffff600400 code=0x80000000`
	c = examineRecorded(t, &recorded{root: "bare", files: map[string]string{"/kernel.log": log}}, KernelLog)[KernelLog]
	expect(t, c, Fail, "2 processes crashed", "other[9]", "sh[12]  time() at 0xffffffffff600400, 1.2, refused by a seccomp filter")
}

func TestBootOption(t *testing.T) {
	for line, want := range map[string]string{
		"quiet vsyscall=none":             "none",
		"vsyscall=none ro vsyscall=xonly": "xonly",
		"root=/dev/x -- vsyscall=none":    "",
		"my.vsyscall=none":                "",
		"":                                "",
	} {
		if got := bootOption(line, "vsyscall"); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// TestEstimateBuckets: as kernels said at boot, for memory of that size.
func TestEstimateBuckets(t *testing.T) {
	for memory, want := range map[uint64]float64{
		1 << 30: 131072, 25 << 30: 4194304, 64 << 30: 8388608, 65 << 30: 8388608, 512 << 30: 16777216,
	} {
		if got := estimateBuckets(memory); got != want {
			t.Errorf("%d MiB: got %.0f, want %.0f", memory>>20, got, want)
		}
	}
}

// FuzzKernelLog: no text makes a reader of logs panic or report an address outside the page.
func FuzzKernelLog(f *testing.F) {
	f.Add("Nov 21 21:14:17 host kernel: [   61.120441] bash[123] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33")
	f.Add("4,1234,61120441,-;bash[123]: segfault at ffffffffff600400 ip ffffffffff600400 sp 0 error 15")
	f.Add("traps: a[1] general protection fault ip:ffffffffff600000 sp:0 error:0")
	f.Fuzz(func(t *testing.T, line string) {
		l, _ := kernellog.Strip(line)
		diagnose.OfKernel([]kernellog.Line{l}, func(d *diagnose.Crash) {
			if d.Kind == diagnose.Call && (d.IP < find.PageVaddr || d.IP-find.PageVaddr >= find.PageSize) {
				t.Errorf("got %+v", d)
			}
		})
		if id := containerOf(line); id != "" && !strings.Contains(line, id) {
			t.Errorf("container %s", id)
		}
	})
}

// FuzzFiles: whatever /proc and /boot hold, the checks end and say something.
func FuzzFiles(f *testing.F) {
	f.Add("CONFIG_X86_64=y\nCONFIG_LEGACY_VSYSCALL_NONE=y\n", "1 2 3 4 5 6", "MemTotal: 1 kB\nMemAvailable: 1 kB")
	f.Add("\x1f\x8b\x08", "9e999 x", "MemTotal: -1 kB")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		files := map[string]string{
			"/proc/config.gz": a, "/proc/cmdline": b, "/proc/cpuinfo": a, "/proc/self/maps": c, "/proc/self/status": a,
			"/proc/sys/fs/dentry-state": b, "/proc/meminfo": c, "/kernel.log": a + "\n" + b,
		}
		all := examineRecorded(t, &recorded{root: "bare", files: files}, Vsyscall, Clock, Dentry, KernelLog)
		for name, check := range all {
			if check.Verdict == "" || check.Found == "" {
				t.Errorf("%s: got %+v", name, check)
			}
		}
	})
}

// TestSeccompVerdict: what a filter costs decides, unless it forbids the calls.
func TestSeccompVerdict(t *testing.T) {
	for _, row := range []struct {
		tax       float64
		forbidden []string
		want      Verdict
		words     string
	}{
		{0.49, nil, OK, "!more at most"},
		{0.5, nil, Warn, "50% more at most"},
		{0.99, nil, Warn, "vfix rebuild IMAGE"},
		{1, nil, Fail, "100% more at most"},
		{0, []string{"time"}, Fail, "the profile forbids time"},
	} {
		c := Check{Name: Seccomp}
		c.figure("syscall_monotonic", 100, "ns")
		c.figure("filtered_monotonic", 100*(1+row.tax), "ns")
		judgeSeccomp(&c, row.tax, "0", row.forbidden)
		expect(t, c, row.want, row.words)
	}
}
