// How the kernel serves the vsyscall page: a call of it, a read of it, and the cost of the call.

package doctor

import (
	"cmp"
	"fmt"
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

func checkPage(m *machine, c *Check, r *Report) error {
	call, err := m.measure(m.ctx, nil, "probe", "page:time")
	if err != nil {
		return err
	}
	peek, err := m.measure(m.ctx, nil, "peek")
	if err != nil {
		return err
	}
	subjects := []string{"syscall:time", "vdso:time"}
	if call.OK() {
		subjects = append(subjects, "page:time")
	}
	t, err := m.times(nil, subjects...)
	if err != nil {
		return err
	}
	page, syscall, vdso := t.Quiet("page:time"), t.Quiet("syscall:time"), t.Quiet("vdso:time")
	c.figure("page_time", page, "ns")
	c.figure("syscall_time", syscall, "ns")
	c.figure("vdso_time", vdso, "ns")
	switch r.Mode = pageMode(call, peek); r.Mode {
	case None:
		r.Answer = "Old images crash here: each call of the page is a SIGSEGV, exit status 139."
		c.found(Fail, "none: this kernel does not serve the page")
		c.Do = "vfix rebuild IMAGE, or for a program: vfix run PROGRAM"
		c.detail("%s", m.howToServe())
	case Blocked:
		r.Answer = "Old images crash here: a filter ends each caller of the page, exit status 159."
		c.found(Fail, "a seccomp filter ends the caller (SIGSYS)")
		c.Do = "vfix rebuild IMAGE, or for a program: vfix run PROGRAM"
	default:
		r.Answer = "Old images run here, slowly: a vsyscall takes " + nanoseconds(page)
		if vdso > 0 {
			r.Answer += fmt.Sprintf(", %.0f times the vDSO's", page/vdso)
		}
		r.Answer += "."
		c.found(Warn, "%s: time() takes %s, by the vDSO %s", r.Mode, nanoseconds(page), nanoseconds(vdso))
		c.Do = "vfix rebuild IMAGE: it then runs on every kernel, as fast as a modern libc"
		c.detail("time(): %s by the page, %s by a system call, %s by the vDSO", nanoseconds(page), nanoseconds(syscall), nanoseconds(vdso))
		c.detail("on kernels with vsyscall=none, old images crash with exit status 139")
	}
	c.detail("/proc/self/maps: %s; a call: %s; a read: %s", cmp.Or(probe.PagePerms(m.read("/proc/self/maps")), "not mapped"), call, peek)
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

// howToServe says what makes this kernel serve the page.
func (m *machine) howToServe() string {
	if strings.Contains(m.line("/proc/sys/kernel/osrelease"), "microsoft") {
		return "WSL2 serves the page with kernelCommandLine = vsyscall=xonly in the section [wsl2] of .wslconfig"
	}
	return "the boot option vsyscall=xonly makes the kernel serve the page, slowly, for every container, if it is built with CONFIG_X86_VSYSCALL_EMULATION"
}
