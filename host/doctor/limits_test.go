package doctor

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/images/inventory"
	"vfix.dev/vfix/internal/hinterr"
)

const (
	v1Mounts = "31 23 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
	v2Mounts = "30 23 0:25 / /sys/fs/cgroup rw,nosuid shared:8 - cgroup2 cgroup2 rw,nsdelegate\n"
	// As Linux 6.1 prints it, and a kernel without CONFIG_MEMCG_V1 and CONFIG_CPUSETS_V1.
	allGroups = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t0\t100\t1\ncpu\t0\t100\t1\ncpuacct\t0\t100\t1\nmemory\t0\t100\t1\npids\t0\t100\t1\n"
	noMemory  = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t100\t1\ncpuacct\t0\t100\t1\npids\t0\t100\t1\n"
)

// TestCgroups: each kind of host, by its files.
func TestCgroups(t *testing.T) {
	for name, test := range map[string]struct {
		mounts, table string
		verdict       Verdict
		words         []string
	}{
		"v1":            {v1Mounts, allGroups, OK, []string{"v1: ", "8u191"}},
		"hybrid":        {v1Mounts + v2Mounts, allGroups, OK, []string{"hybrid: "}},
		"v1, no memory": {v1Mounts, strings.Replace(allGroups, "memory\t0\t100\t1", "memory\t0\t100\t0", 1), Warn, []string{"cgroup_disable=memory"}},
		"v2":            {v2Mounts, allGroups, Warn, []string{"JDKs before 8u372", "systemd before 230", "-XX:MaxRAM"}},
		"v2, new":       {v2Mounts, noMemory, Fail, []string{"does not list cpuset, memory", "137", "-XX:ActiveProcessorCount"}},
		"none":          {"1 1 0:1 / / rw - ext4 /dev/root rw\n", allGroups, Skipped, []string{"no control groups"}},
		"no /proc":      {v2Mounts, "", Skipped, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorded{root: "bare", files: map[string]string{
				"/proc/self/mountinfo": test.mounts, "/proc/cgroups": test.table, "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
			}}
			expect(t, examineRecorded(t, r, Cgroups)[Cgroups], test.verdict, test.words...)
		})
	}
}

func limits(n string) string {
	return "Limit                     Soft Limit           Hard Limit           Units     \nMax processes             100 100 processes\nMax open files            " + n + "                 1073741816           files     \n"
}

// TestNofile: the limit is that of containers, else of their engines, else vfix's own.
func TestNofile(t *testing.T) {
	const container = "0::/system.slice/docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n"
	files := map[string]string{"/proc/self/limits": limits("1024")}
	check := func(more map[string]string) Check {
		maps.Copy(files, more)
		return examineRecorded(t, &recorded{root: "lass", files: files}, Nofile)[Nofile]
	}
	expect(t, check(nil), OK, "1024 open files (vfix itself)", "containers may have another")
	expect(t, check(map[string]string{"/proc/812/comm": "containerd\n", "/proc/812/limits": limits("1073741816"), "/proc/9/comm": "bash\n", "/proc/9/limits": limits("2000000000")}),
		Fail, "1073741816 open files (containerd[812])", "yum", "--ulimit nofile=", "!containers may have another")
	expect(t, check(map[string]string{"/proc/812/limits": limits("1048576")}), OK, "1048576 open files")
	expect(t, check(map[string]string{"/proc/4711/comm": "redis-server\n", "/proc/4711/cgroup": container, "/proc/4711/limits": limits("20000000")}),
		Warn, "20000000 open files (redis-server[4711], in a container)")
	expect(t, examineRecorded(t, &recorded{root: "bare"}, Nofile)[Nofile], Skipped, "/proc is not mounted")
}

// TestIA32: a 32-bit program that runs, and the ways in which it does not.
func TestIA32(t *testing.T) {
	check := func(outcome string, files map[string]string) Check {
		return examineRecorded(t, &recorded{root: "bare", runs: map[string]string{"execute": outcome}, files: files}, IA32)[IA32]
	}
	expect(t, check("status 0", nil), OK)
	expect(t, check("error", nil), Fail, "exec format error", "CONFIG_IA32_EMULATION")
	expect(t, check("error", map[string]string{"/proc/cmdline": "quiet ia32_emulation=0\n"}), Fail, "remove ia32_emulation=0 from")
	expect(t, check("signal 31", nil), Fail, "SIGSYS")
}

func TestASLR(t *testing.T) {
	check := func(bits, randomize string) Check {
		files := map[string]string{"/proc/sys/vm/mmap_rnd_bits": bits, "/proc/sys/kernel/randomize_va_space": randomize}
		return examineRecorded(t, &recorded{root: "bare", files: files}, ASLR)[ASLR]
	}
	expect(t, check("28\n", "2\n"), OK, "28 random bits")
	expect(t, check("32\n", "2\n"), Warn, "32 random bits", "vm.mmap_rnd_bits=28", "-fsanitize")
	expect(t, check("32\n", "0\n"), OK, "not randomized")
	expect(t, check("", "2\n"), Skipped, "as root")
}

// TestSchema1: images by their age.
func TestSchema1(t *testing.T) {
	check := func(engines []string, images []inventory.Stocked, err error) Check {
		r := &recorded{t: t, root: "testdata/bare"}
		stock := func(context.Context) ([]string, []inventory.Stocked, error) { return engines, images, err }
		report, failed := examine(t.Context(), r, Options{Checks: []string{Schema1}, Limit: time.Minute, Stock: stock})
		if failed != nil {
			t.Fatal(failed)
		}
		return report.Checks[0]
	}
	at := func(date string) time.Time { when, _ := time.Parse(time.DateOnly, date); return when }
	images := []inventory.Stocked{{Name: "new:1", Created: at("2024-05-01")}, {Name: "reproducible:1", Created: at("1980-01-01")}}
	expect(t, check([]string{"unix:///s: 29.1.0"}, images, nil), OK, "0 of 2 images", "29.1.0")
	images = append(images, inventory.Stocked{Name: "redis:2.8.22", Created: at("2015-08-20")})
	expect(t, check(nil, images, nil), Warn, "1 of 3 images", "redis:2.8.22, created 2015-08-20", "vfix convert docker-daemon:IMAGE -o docker://IMAGE", "!reproducible")
	expect(t, check(nil, nil, hinterr.Errorf(hinterr.ErrNoDaemon, "no engine")), Skipped, "no engine")
}

// TestContainers: what the engines have, as lines and counts.
func TestContainers(t *testing.T) {
	held := []inventory.Held{{Name: "redis:2.8.22", Sites: 3, Files: 2}, {Container: "web", Name: "debian:12"}, {Name: "odd", Err: errors.New("damaged")}}
	for _, served := range []bool{true, false} {
		want := map[bool]Verdict{true: Warn, false: Fail}[served]
		c := Check{Name: Containers}
		judgeContainers(&c, &inventory.Inventory{Engines: []string{"unix:///s"}, LeftOut: []string{"big"}, Held: held}, served)
		expect(t, c, want, "1 of 2 images and 0 of 1 running containers need vfix", "image      redis:2.8.22  needs vfix: 3 call sites in 2 files", "image      odd  not examined: damaged", "left out: big", "!web")
		if want := (Fact{"engine", "unix:///s"}); len(c.Facts) != 1 || c.Facts[0] != want {
			t.Errorf("got %v, want %v", c.Facts, want)
		}
	}
	held = append(held[1:], inventory.Held{Container: "old", Name: "centos:6", Sites: 1, Files: 1})
	c := Check{Name: Containers}
	judgeContainers(&c, &inventory.Inventory{Held: held}, true)
	for _, rest := range []*inventory.Inventory{{Held: held[1:2]}, {LeftOut: []string{"big"}}, {Held: held[:1]}} {
		c := Check{Name: Containers}
		judgeContainers(&c, rest, true)
		expect(t, c, map[bool]Verdict{true: OK, false: Warn}[rest.LeftOut == nil && rest.Held[0].Err == nil], "0 of ")
	}
	expect(t, c, Warn, "0 of 1 images and 1 of 2 running containers", "container  old (centos:6)  needs vfix: 1 call sites in 1 files")
}
