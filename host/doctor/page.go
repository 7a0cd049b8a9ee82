// How the kernel serves the vsyscall page: a call of it, a read of it, and the cost of the call.

package doctor

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"strings"

	"vfix.dev/vfix/host/probe"
)

// Mode is how the kernel serves the vsyscall page.
type Mode string

// The modes, as the kernel's option vsyscall= has them, and Blocked.
const (
	None    Mode = "none"
	Xonly   Mode = "xonly"
	Emulate Mode = "emulate"
	Blocked Mode = "blocked" // a seccomp filter ends the caller
)

// page is what was measured of the page.
type page struct {
	mode                Mode
	call, syscall, vdso float64 // nanoseconds of time(), 0 if it was not measured
	noEmulation         bool    // the kernel is built without CONFIG_X86_VSYSCALL_EMULATION
	option              string  // vsyscall= of the kernel's command line
	wsl                 bool
}

func checkPage(m *machine, c *Check, r *Report) error {
	call, err := m.run("probe", "page:time")
	if err != nil {
		return err
	}
	peek, err := m.run("peek")
	if err != nil {
		return err
	}
	release := m.line("/proc/sys/kernel/osrelease")
	p := page{noEmulation: m.builtWithoutPage(release), option: m.bootOption("vsyscall"), wsl: strings.Contains(release, "microsoft")}
	subjects := []string{"syscall:time", "vdso:time"}
	if call.OK() {
		subjects = append(subjects, "page:time")
	}
	t, err := m.times(nil, subjects...)
	if err != nil {
		return err
	}
	p.call, p.syscall, p.vdso = t.Quiet("page:time"), t.Quiet("syscall:time"), t.Quiet("vdso:time")
	p.mode = pageMode(call, peek)
	judgePage(p, c, r)
	c.detail("/proc/self/maps: %s; a call: %s; a read: %s", cmp.Or(probe.PagePerms(m.read("/proc/self/maps")), "not mapped"), call, peek)
	if p.option != "" {
		c.detail("the kernel's command line has vsyscall=%s", p.option)
	}
	return nil
}

// pageMode returns the mode from how a call and a read ended.
func pageMode(call, peek probe.Outcome) Mode {
	switch {
	case call.Signal == probe.SIGSYS:
		return Blocked
	case !call.OK():
		return None
	case !peek.OK():
		return Xonly
	}
	return Emulate
}

func judgePage(p page, c *Check, r *Report) {
	r.Mode = p.mode
	c.figure("page_time", p.call, "ns")
	c.figure("syscall_time", p.syscall, "ns")
	c.figure("vdso_time", p.vdso, "ns")
	switch p.mode {
	case None:
		r.Answer = "Old images crash here: each call of the page is a SIGSEGV, exit status 139."
		c.found(Fail, "none: this kernel does not serve the page")
		c.Do = "vfix rebuild IMAGE, or for a program: vfix run PROGRAM"
		switch {
		case p.noEmulation && p.option != "":
			c.detail("this kernel is built without CONFIG_X86_VSYSCALL_EMULATION and ignores vsyscall=%s", p.option)
		case p.noEmulation:
			c.detail("this kernel is built without CONFIG_X86_VSYSCALL_EMULATION: no boot option helps")
		case p.wsl:
			c.detail("WSL2 serves the page with kernelCommandLine = vsyscall=xonly in the section [wsl2] of .wslconfig")
		default:
			c.detail("the boot option vsyscall=xonly makes the kernel serve the page, slowly, for every container")
		}
	case Blocked:
		r.Answer = "Old images crash here: a filter ends each caller of the page, exit status 159."
		c.found(Fail, "a seccomp filter ends the caller (SIGSYS)")
		c.Do = "vfix rebuild IMAGE, or for a program: vfix run PROGRAM"
	default:
		r.Answer = "Old images run here, slowly: a vsyscall" + price(p) + "."
		c.found(Warn, "%s: time() takes %s, by the vDSO %s", p.mode, nanoseconds(p.call), nanoseconds(p.vdso))
		c.Do = "vfix rebuild IMAGE: it then runs on every kernel, as fast as a modern libc"
		c.detail("time(): %s by the page, %s by a system call, %s by the vDSO", nanoseconds(p.call), nanoseconds(p.syscall), nanoseconds(p.vdso))
		c.detail("on kernels with vsyscall=none, old images crash with exit status 139")
		if p.mode != Xonly {
			c.detail("the page is readable at a fixed address, which helps exploits: vsyscall=xonly is safer")
		}
	}
}

// price says what a call costs.
func price(p page) string {
	if p.call == 0 {
		return " enters the kernel"
	}
	text := " takes " + nanoseconds(p.call)
	if p.vdso > 0 {
		text += fmt.Sprintf(", %.0f times the vDSO's", p.call/p.vdso)
	}
	return text
}

// builtWithoutPage reports whether the kernel's configuration says that it cannot serve the page. Before Linux 3.19
// there was no such option.
func (m *machine) builtWithoutPage(release string) bool {
	config := m.read("/boot/config-" + release)
	if packed := m.read("/proc/config.gz"); packed != nil {
		if r, err := gzip.NewReader(bytes.NewReader(packed)); err == nil {
			const most = 16 << 20 // bytes
			config, _ = io.ReadAll(io.LimitReader(r, most))
		}
	}
	return bytes.Contains(config, []byte("\n# CONFIG_X86_VSYSCALL_EMULATION is not set\n"))
}
