// The system calls that a patch adds to a file, which a seccomp filter must allow.

package patch

import (
	"slices"
	"strings"

	"vfix.dev/vfix/rewriter/find"
)

// addedCalls returns the system calls that the patch adds, and when they are made; nil if it adds none.
func (p *Plan) addedCalls() []string {
	var replaced, served []string
	add := func(to *[]string, f find.Function) {
		if !slices.Contains(*to, f.String()) {
			*to = append(*to, f.String())
		}
	}
	for i := range p.Patches {
		switch q := &p.Patches[i]; q.Form {
		case Left:
		case Syscall:
			add(&replaced, q.Site.Function)
		default:
			add(&served, q.Site.Function)
		}
	}
	var all []string
	if len(served) > 0 || p.Redirected() {
		h := p.hooks
		if h.found {
			all = append(all, "at load: mprotect, twice")
		}
		if h.init != 0 || h.found && !p.file.IsProgram() {
			all = append(all, "at load under musl, or by dlopen after setenv: prctl; before Linux 6.4 also open, read and close (/proc/self/auxv)")
		}
		if h.found && p.Redirected() {
			all = append(all, cgroupsCalls)
		}
		if len(served) > 0 {
			all = append(all, "in place of the page, where the kernel provides no vDSO: "+strings.Join(served, ", "))
		}
	}
	if len(replaced) > 0 {
		all = append(all, "in place of the page: "+strings.Join(replaced, ", "))
	}
	return all
}
