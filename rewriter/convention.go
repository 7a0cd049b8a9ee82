// Who may call a function, and what they count on. The C convention is not enough: gcc 5 and
// later let callers in the same file keep values in registers that a callee is seen to leave alone
// (-fipa-ra), whatever the calling convention says.

package rewriter

import (
	"strconv"
	"strings"

	"vfix.dev/vfix/rewriter/origin"
)

// convention is what is known of the callers in a file.
type convention struct {
	glibc bool // it is, or contains, a glibc that calls the page, and no newer compiler is named
	api   bool // it is that glibc's libc.so.6, and every compiler is named
}

// stubsEnd is the first glibc whose functions do not call the page directly.
const stubsEnd = 14 // 2.14

// convention tells what callers in the file may count on. It does not depend on symbols, which
// strip takes away.
func (r *Report) convention(f *file) convention {
	by := origin.Compilers(f.File)
	minor, known := strings.CutPrefix(r.Libc, "glibc 2.")
	minor, _, _ = strings.Cut(minor, ".")
	n, err := strconv.Atoi(minor)
	glibc := r.Libc == "glibc" || known && err == nil && n < stubsEnd
	whole := f.Soname() == "libc.so.6"
	return convention{glibc: glibc && by != origin.Recent && (r.Static || whole), api: glibc && by == origin.Old && whole}
}

// cFunction reports whether every caller of the function around s is known to follow the C
// convention: of what glibc's libc.so.6 exports, whose callers know it from headers of C, and of the
// time() of glibc, which is known by its bytes. It is not assumed of any other function, whatever
// compiler the file names: assembly leaves no name there, and libpthread's lock functions are
// called from inline assembly that expects rdx, r8 and r9 unchanged. A caller that is seen to read
// a register after it called proves the contrary.
func (p *prover) cFunction(b *body, s *Site) bool {
	if !(p.conv.api && p.fn.exported[b.Start] || p.conv.glibc && s.Stub.Len == glibcTime && s.Function == Time) {
		return false
	}
	for _, from := range p.t.called[b.Start] {
		if read, _ := p.liveness(from+jumpLen, true); read != 0 {
			return false
		}
	}
	return true
}

// glibcTime is the length of time() of glibc 2.3 to 2.13: sub, mov, call, add, ret.
const glibcTime = 18
