// Who may call a function, and what they count on. The C convention is not enough: gcc 5 and later let callers in the same file keep values in
// registers that a callee is seen to leave alone (-fipa-ra), whatever the calling convention
// says.

package rewriter

import (
	"bytes"
	"strconv"
	"strings"
)

// maxComment bounds the bytes read of .comment. More of it than that says nothing.
const maxComment = 1 << 20

// makers is what .comment says of the compilers.
type makers uint8

const (
	unnamed makers = iota // nothing, or not all of them
	old                   // each is a gcc before 5
	recent                // another one is among them
)

// ipaRA is the first gcc that has -fipa-ra.
const ipaRA = 5

// madeBy reads .comment, in which each compiler leaves one string an object file.
func madeBy(f *elfFile) makers {
	s := f.section(".comment")
	if s == nil || s.typ == shtNobits || s.size == 0 {
		return unnamed
	}
	if s.size > maxComment {
		return recent
	}
	b, err := f.bytes(s.off, s.size) // Scan reports what cannot be read
	if err != nil {
		return recent
	}
	found := unnamed
	for line := range bytes.SplitSeq(b, []byte{0}) {
		switch text := strings.TrimSpace(string(line)); {
		case text == "":
		case oldGCC(text):
			found = max(found, old)
		default:
			found = recent
		}
	}
	return found
}

// oldGCC recognises "GCC: (GNU) 4.1.2 20080704 (Red Hat 4.1.2-55)": the version stands behind
// the name of the distribution in brackets.
func oldGCC(text string) bool {
	rest, ok := strings.CutPrefix(text, "GCC: (")
	if !ok {
		return false
	}
	depth := 1
	for i, c := range rest {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			major, _, _ := strings.Cut(strings.TrimSpace(rest[i+1:]), ".")
			n, err := strconv.Atoi(major)
			return err == nil && n < ipaRA
		}
	}
	return false
}

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
	by := madeBy(f.elfFile)
	minor, known := strings.CutPrefix(r.Libc, "glibc 2.")
	minor, _, _ = strings.Cut(minor, ".")
	n, err := strconv.Atoi(minor)
	glibc := r.Libc == "glibc" || known && err == nil && n < stubsEnd
	whole := f.soname() == "libc.so.6"
	return convention{glibc: glibc && by != recent && (r.Static || whole), api: glibc && by == old && whole}
}

// cFunction reports whether every caller of the function around s is known to follow the C
// convention: of what glibc's libc.so.6 exports, whose callers know it from headers of C, and of the
// time() of glibc, which is known by its bytes. It is not assumed of any other function, whatever
// compiler the file names: assembly leaves no name there, and libpthread's lock functions are
// called from inline assembly that expects rdx, r8 and r9 unchanged. A caller that is seen to read
// a register after it called proves the contrary.
func (p *prover) cFunction(b *body, s *Site) bool {
	if !(p.conv.api && p.fn.exported[b.start] || p.conv.glibc && s.Stub.Len == glibcTime && s.Function == Time) {
		return false
	}
	for _, from := range p.t.called[b.start] {
		if read, _ := p.liveness(from+jumpLen, true); read != 0 {
			return false
		}
	}
	return true
}

// glibcTime is the length of time() of glibc 2.3 to 2.13: sub, mov, call, add, ret.
const glibcTime = 18
