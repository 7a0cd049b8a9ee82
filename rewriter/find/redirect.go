// Names of files that mislead a program on some hosts: the one instruction that loads such a name.

package find

import (
	"fmt"

	"vfix.dev/vfix/rewriter/x86"
)

// Fix is the name of a fix besides that of calls of the page.
type Fix string

// JavaCgroups is the fix for the memory limit of JDKs that read /proc/cgroups to find the version of control
// groups in use, until JDK-8349988.
const JavaCgroups Fix = "java-cgroups"

// Fixes are all fixes.
var Fixes = []Fix{JavaCgroups}

// A file with the name cgroupsFile needs that fix if it has the misleading text but not the other one, which later
// versions have, as does the injected code.
const (
	cgroupsFile   = "libjvm.so"
	cgroupsText   = "/proc/cgroups"
	cgroupsUnless = "/cgroup.controllers"
)

// Redirect is the reference to the name in a file that needs a fix.
type Redirect struct {
	Fix  Fix
	Text string // the name that misleads the program
	// Vaddr and Offset are of the instruction; 0 if it cannot be changed. Before and After are its bytes; After is
	// nil until its change is planned.
	Vaddr, Offset uint64
	Before, After []byte
	// Reason is why the file is not fixed; "" if it is or can be.
	Reason string
	// Listing is the code there, before and after; nil unless it was requested from the plan.
	Listing *Explanation
}

// RedirectLen is the length of lea disp32(%rip) with a 64-bit register: REX.W 8D ModRM disp32 (SDM).
const RedirectLen = 7

// findRedirect finds a reference that needs a fix; nil if there is none.
func (f *File) findRedirect() *Redirect {
	if f.Soname() != cgroupsFile {
		return nil
	}
	texts := f.FindText(cgroupsText + "\x00")
	if len(texts) == 0 || len(f.FindText(cgroupsUnless)) > 0 {
		return nil
	}
	r := &Redirect{Fix: JavaCgroups, Text: cgroupsText}
	if len(texts) > 1 {
		r.Reason = fmt.Sprintf("%q is there %d times", r.Text, len(texts))
		return r
	}
	f.findLoad(r, texts[0])
	return r
}

// findLoad finds the instruction that loads the address of a text, its only reference.
func (f *File) findLoad(r *Redirect, text uint64) {
	refs, data := f.References(text)
	switch {
	case data > 0:
		r.Reason = fmt.Sprintf("the address of %q is in data", r.Text)
		return
	case len(refs) != 1:
		r.Reason = fmt.Sprintf("%d instructions refer to %q", len(refs), r.Text)
		return
	}
	at := refs[0] - (RedirectLen - 4)
	off, ok := f.Offset(at, RedirectLen)
	b := f.Bytes(off, RedirectLen)
	if !ok {
		return
	}
	if b[0]&^4 != 0x48 || b[1] != 0x8d {
		r.Reason = fmt.Sprintf("the reference to %q at vaddr %#x is not a lea of 7 bytes", r.Text, at)
		return
	}
	r.Vaddr, r.Offset, r.Before = at, off, b
}

// ProveRedirect gives a redirect a reason if its bytes are not proved to be an instruction.
func (f *File) ProveRedirect(r *Redirect) {
	if r.Reason != "" {
		return
	}
	j := &judge{code: code{f: f}, fn: findFunctions(f, []Site{{Vaddr: r.Vaddr}})}
	if !j.boundary(r.Vaddr) {
		r.Reason = fmt.Sprintf("the instruction at vaddr %#x: it may be data", r.Vaddr)
		r.Vaddr, r.Offset, r.Before = 0, 0, nil
	}
}

// Explanation is the code around one site. Both sides have the same addresses; After is empty if nothing changes
// there.
type Explanation struct {
	Before, After []x86.Line
}
