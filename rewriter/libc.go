package rewriter

import (
	"bytes"
	"strings"
)

// Which libc a file contains, and what kind of program it is.

const (
	dtSoname = 14
	dtDebug  = 21
	// df1PIE is DF_1_PIE of DT_FLAGS_1.
	df1PIE = 0x08000000
	// maxVersion is the longest version number accepted, in bytes.
	maxVersion = 12
)

// static reports whether the file is a program that no interpreter loads. A shared library
// has no interpreter either: only a static-pie has DF_1_PIE, or, from linkers before that
// flag, the DT_DEBUG that linkers write into programs alone.
func (f *elfFile) static() bool {
	if f.prog(ptInterp) != nil {
		return false
	}
	if f.typ == etExec {
		return true
	}
	if d := f.dyn(dtFlags1); d != nil && d.val&df1PIE != 0 {
		return true
	}
	return f.entry != 0 && f.dyn(dtDebug) != nil && f.dyn(dtSoname) == nil
}

// banner is a string by which a libc is known: what stands before its version number.
type banner struct{ text, libc string }

// The banners. glibc: csu/version.c ("GNU C Library … stable release version 2.13") and
// nptl's confstr string; musl and uClibc have no version in their program text.
var banners = [...]banner{
	{"stable release version ", "glibc"},
	{"development release version ", "glibc"},
	{"NPTL ", "glibc"},
	{"glibc ", "glibc"}, // gnu_get_libc_version's neighbour in some vendors' builds
	{"uClibc", "uClibc"},
	{"dietlibc", "dietlibc"},
	{"musl libc", "musl"},
}

// libcOf names the libc that the file contains, as the strings in its read-only segments
// tell; "" where they tell nothing.
func libcOf(f *elfFile) (string, error) {
	best, rank := "", len(banners)
	s := &search{f: f, buf: make([]byte, min(searchChunk, f.size))}
	for i := range f.progs {
		p := &f.progs[i]
		if p.typ != ptLoad || p.filesz == 0 {
			continue
		}
		err := s.chunks(p, func(b []byte, _ uint64, _, _ int) {
			for n := range banners[:rank] {
				if v, ok := banners[n].find(b); ok {
					best, rank = v, n
					break
				}
			}
		})
		if err != nil {
			return "", err
		}
	}
	if best != "" || f.dynamic == nil {
		return best, nil
	}
	return f.glibcByVersions()
}

func (n banner) find(b []byte) (string, bool) {
	for {
		i := bytes.Index(b, []byte(n.text))
		if i < 0 {
			return "", false
		}
		b = b[i+len(n.text):]
		if n.libc != "glibc" {
			return n.libc, true
		}
		if v := version(b); v != "" {
			return "glibc " + v, true
		}
	}
}

// version returns the version number at the start of b: digits and dots, as "2.13".
func version(b []byte) string {
	n := 0
	for n < len(b) && n < maxVersion && (b[n] == '.' || b[n] >= '0' && b[n] <= '9') {
		n++
	}
	v := strings.TrimRight(string(b[:n]), ".")
	if !strings.Contains(v, ".") || strings.HasPrefix(v, ".") {
		return ""
	}
	return v
}

// glibcByVersions is for glibc's other libraries.
func (f *elfFile) glibcByVersions() (string, error) { return "", nil }
