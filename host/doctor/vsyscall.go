// How the kernel serves the vsyscall page. Four witnesses: /proc/self/maps, a call, a read, and
// the cost of the call; and what the kernel was built and booted with.

package doctor

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"slices"
	"strings"

	"vfix.dev/vfix/host/probe"
)

type mode string

const (
	modeNone    mode = "none"
	modeXonly   mode = "xonly"
	modeEmulate mode = "emulate"
	modeNative  mode = "native"  // Linux before 4.17 (commit 076ca272a14c)
	modeBlocked mode = "blocked" // a seccomp filter ends the caller
)

// nativeFactor: where a call of the page costs less than this many plain system calls it is
// one (native); a trapped call costs a page fault in addition.
const nativeFactor = 1.5

// kernelConfig is what the kernel's configuration says about the page.
type kernelConfig struct {
	source    string // the file; "" for none
	emulation bool   // CONFIG_X86_VSYSCALL_EMULATION
	byDefault mode   // CONFIG_LEGACY_VSYSCALL_*
}

func checkVsyscall(x *examination, c *Check) {
	call, peek := x.run(nil, "probe", "page:time"), x.run(nil, "peek")
	perms, known := pagePerms(x)
	c.fact("maps", perms)
	c.fact("call", call.String())
	c.fact("read", peek.String())
	config := x.kernelConfig()
	option := bootOption(x.line("/proc/cmdline"), "vsyscall")
	c.fact("boot_option", option)
	c.fact("build_default", string(config.byDefault))
	c.fact("config", config.source)
	lass := slices.Contains(strings.Fields(x.field("/proc/cpuinfo", "flags")), "lass") // all processors have the same
	c.fact("lass", map[bool]string{true: "yes", false: "no"}[lass])
	ratio, syscalls := pageCost(x, c, call)
	release := x.line("/proc/sys/kernel/osrelease")
	is := pageMode(call, peek, syscalls, release)
	c.fact("mode", string(is))
	if known && call.OK() != (perms != "not mapped") {
		c.note("/proc/self/maps says %s, but a call ends with %s: this is not an ordinary Linux kernel", perms, call)
	}
	if config.source == "" {
		c.note("the kernel's configuration is not readable: neither /proc/config.gz nor /boot/config-%s", release)
	}
	pageLines(c, perms, call, peek, config, option)
	judgePage(c, is, config, option, release, ratio)
	if lass && is != modeEmulate {
		c.note("this processor has LASS on: booting with vsyscall=emulate would turn it off; vsyscall=xonly would not (Linux, \"x86/vsyscall: Disable LASS if vsyscall mode is set to EMULATE\")")
	}
}

// pageLines are the witnesses' findings, for people.
func pageLines(c *Check, perms string, call, peek probe.Outcome, config kernelConfig, option string) {
	c.line("/proc/self/maps: %s; a call: %s; a read: %s", perms, call, peek)
	built := "the kernel's configuration is not known"
	switch {
	case config.source != "" && !config.emulation:
		built = "the kernel is built without the page's emulation (" + config.source + ")"
	case config.source != "":
		built = fmt.Sprintf("the kernel is built for %s (%s)", config.byDefault, config.source)
	}
	if option == "" {
		c.line("%s; no vsyscall= on its command line", built)
	} else {
		c.line("%s; vsyscall=%s on its command line", built, option)
	}
	if page, ok := c.value("page_time"); ok {
		plain, _ := c.value("syscall_time")
		vdso, _ := c.value("vdso_time")
		line := fmt.Sprintf("time(): %s by the page, %s by a system call", nanoseconds(page), nanoseconds(plain))
		if vdso > 0 {
			line += ", " + nanoseconds(vdso) + " by the vDSO"
		}
		c.line("%s", line)
	}
}

// pageCost times the page beside its two alternatives. It returns what a call costs in calls of
// the vDSO and in plain system calls, 0 if it cannot be called.
func pageCost(x *examination, c *Check, call probe.Outcome) (vdso, syscalls float64) {
	if !call.OK() {
		return 0, 0
	}
	t, _ := x.times(nil, "page:time", "syscall:time", "vdso:time")
	page, ok := c.quiet(t, "page:time", "page_time")
	if !ok {
		return 0, 0
	}
	const least = 0.01 // nanoseconds
	if ns, ok := c.quiet(t, "syscall:time", "syscall_time"); ok {
		syscalls = page / max(ns, least)
	}
	if ns, ok := c.quiet(t, "vdso:time", "vdso_time"); ok {
		vdso = page / max(ns, least)
	}
	return vdso, syscalls
}

// pageMode is how the page is served, from how a call and a read of it ended, and from what
// the call costs in plain system calls on a kernel that may have the native page.
func pageMode(call, peek probe.Outcome, syscalls float64, release string) mode {
	switch {
	case call.Signal == probe.SIGSYS:
		return modeBlocked
	case !call.OK():
		return modeNone
	case !peek.OK():
		return modeXonly
	case syscalls > 0 && syscalls < nativeFactor && mayBeNative(release):
		return modeNative
	}
	return modeEmulate
}

// mayBeNative reports whether a kernel is from before Linux 4.17, or of a version that is not known.
func mayBeNative(release string) bool {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return err != nil || major < 4 || major == 4 && minor < 17
}

const legacy = "programs and images on glibc 2.13 or older (CentOS 5 and 6, Debian squeeze and wheezy, redis:2.8.22, manylinux1)"

func judgePage(c *Check, is mode, config kernelConfig, option, release string, ratio float64) {
	price := fmt.Sprintf("%s: served", is)
	if ns, ok := c.value("page_time"); ok {
		price = fmt.Sprintf("%s: a call of time() costs %s", is, nanoseconds(ns))
		if ratio > 0 {
			price += fmt.Sprintf(", %.0f times the vDSO's", ratio)
		}
	}
	switch is {
	case modeNone:
		c.found(Fail, "none: a call ends in SIGSEGV")
		c.Means = legacy + " end with status 139 and nothing in their log"
		c.Do = "vfix rebuild IMAGE, or vfix run PROGRAM; or boot the host with vsyscall=xonly, at a cost for every container"
		if strings.Contains(release, "microsoft") {
			c.Do += ". Under WSL2 that is a line of .wslconfig: kernelCommandLine = vsyscall=xonly, in the section [wsl2]"
		}
		if config.source != "" && !config.emulation || config.source == "" && option != "" && option != string(modeNone) {
			c.Do = "vfix rebuild IMAGE, or vfix run PROGRAM. No boot option helps: this kernel is built without CONFIG_X86_VSYSCALL_EMULATION"
			if option != "" {
				c.Do += fmt.Sprintf(", and silently ignores vsyscall=%s", option)
			}
		}
	case modeBlocked:
		c.found(Fail, "a seccomp filter ends the caller (SIGSYS)")
		c.Means = legacy + " end with status 159 under this filter, and so do programs started from here"
		c.Do = "vfix rebuild IMAGE, or vfix run PROGRAM; or remove the rule about the page from the filter"
	case modeXonly:
		c.found(Warn, "%s", price)
		c.Means = legacy + " run slowly on this host and crash on hosts with vsyscall=none"
		c.Do = "vfix rebuild IMAGE: the rebuilt image runs on every kernel, as fast as a modern libc"
	case modeEmulate:
		c.found(Warn, "%s", price)
		c.Means = legacy + " run slowly on this host; the page is readable at a fixed address, which helps exploits, and LASS stays off"
		c.Do = "vfix rebuild IMAGE, and boot with vsyscall=xonly or none"
	case modeNative:
		c.found(Warn, "%s", price)
		c.Means = legacy + " run here; the page holds a system call instruction at a fixed address, which helps exploits"
		c.Do = "vfix rebuild IMAGE, and boot with vsyscall=none"
	}
	if c.Do != "" {
		c.Do += findImages
	}
}

// findImages says how to find the IMAGE of a recommendation.
const findImages = ". 'vfix list | vfix scan --from-file -' shows which images of the engines here are affected"

// pagePerms is how /proc/self/maps shows the page; known is false without /proc.
func pagePerms(x *examination) (perms string, known bool) {
	maps, err := x.read("/proc/self/maps")
	if err != nil {
		return "unknown: /proc is not mounted", false
	}
	return cmp.Or(probe.PagePerms(maps), "not mapped"), true
}

// kernelConfig reads the kernel's configuration from where distributions keep it.
func (x *examination) kernelConfig() kernelConfig {
	release := x.line("/proc/sys/kernel/osrelease")
	paths := []string{"/proc/config.gz"}
	if release != "" && !strings.Contains(release, "/") {
		paths = append(paths, "/boot/config-"+release, "/lib/modules/"+release+"/config", "/usr/lib/modules/"+release+"/config")
	}
	for _, path := range paths {
		b, err := x.read(path)
		if err != nil {
			continue
		}
		if strings.HasSuffix(path, ".gz") {
			if b, err = gunzip(b); err != nil {
				continue
			}
		}
		if k, ok := parseConfig(b); ok {
			k.source = path
			return k
		}
	}
	return kernelConfig{}
}

func gunzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxFile))
}

// parseConfig reads a kernel's configuration; ok is whether it is one of x86-64. Before
// Linux 3.19 there was no CONFIG_X86_VSYSCALL_EMULATION, and the page was always there.
func parseConfig(text []byte) (k kernelConfig, ok bool) {
	k.emulation = true
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSpace(line); line {
		case "CONFIG_X86_64=y":
			ok = true
		case "# CONFIG_X86_VSYSCALL_EMULATION is not set":
			k.emulation = false
		case "CONFIG_LEGACY_VSYSCALL_NONE=y":
			k.byDefault = modeNone
		case "CONFIG_LEGACY_VSYSCALL_XONLY=y":
			k.byDefault = modeXonly
		case "CONFIG_LEGACY_VSYSCALL_EMULATE=y":
			k.byDefault = modeEmulate
		case "CONFIG_LEGACY_VSYSCALL_NATIVE=y":
			k.byDefault = modeNative
		}
	}
	return k, ok
}

// bootOption returns the value of an option of the kernel's command line, the last one that
// is given; "" for none.
func bootOption(cmdline, name string) string {
	value := ""
	for _, word := range strings.Fields(cmdline) {
		if word == "--" { // what follows is init's (Documentation/admin-guide/kernel-parameters.rst)
			break
		}
		if v, ok := strings.CutPrefix(word, name+"="); ok {
			value = v
		}
	}
	return value
}
