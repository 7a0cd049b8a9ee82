// The libc in a file.

package find

import (
	"slices"
	"strings"

	"vfix.dev/vfix/rewriter/elf"
)

// maxVersion is the longest version number accepted, in bytes.
const maxVersion = 12

// banner is a string that identifies a libc.
type banner struct {
	text, libc string
	version    bool // its version number follows
}

// The banners, most specific first. glibc has its version in csu/version.c ("GNU C Library … stable release
// version 2.13", "(Debian EGLIBC 2.13-38)") and in confstr ("NPTL 2.5"); many static programs have none of these,
// but the message of malloc's checks (2.3 to 2.25).
var banners = [...]banner{
	{"stable release version ", "glibc", true},
	{"development release version ", "glibc", true},
	{"EGLIBC ", "glibc", true},
	{"NPTL ", "glibc", true},
	{"*** glibc detected ***", "glibc", false},
	{"uClibc", "uClibc", false},
	{"musl libc", "musl", false},
}

// glibcLibraries are libraries of glibc besides libc.so.6 that call the page. Each has a separate string with the
// version in its read-only data (nptl_version in nptl-init.c).
var glibcLibraries = []string{"libpthread.so.0", "librt.so.1"}

// libcOf returns the name of the libc in the file; "" if it has none that is recognized. Only a libc itself and
// static programs have one: other files only mention names.
func libcOf(f *elf.File) string {
	soname := f.Soname()
	lone := slices.Contains(glibcLibraries, soname)
	if !lone && !f.Static() && !strings.HasPrefix(soname, "libc.") {
		return ""
	}
	best, rank := "", len(banners)
	f.EachChunk(0, elf.PFW, func(_ *elf.Prog, b []byte, _ uint64, _, _ int) {
		for n := range banners[:rank] {
			if v, ok := banners[n].find(b); ok {
				best, rank = v, n
				return
			}
		}
		if v := loneVersion(b); lone && best == "" && v != "" {
			best = "glibc " + v
		}
	})
	return best
}

func (n banner) find(b []byte) (string, bool) {
	for i := range elf.Indexes(b, 0, len(b), []byte(n.text)) {
		if !n.version {
			return n.libc, true
		}
		if v := version(b[i+len(n.text):]); v != "" {
			return n.libc + " " + v, true
		}
	}
	return "", false
}

// loneVersion finds a string that is only a version number of glibc.
func loneVersion(b []byte) string {
	for i := range elf.Indexes(b, 0, len(b), []byte("\x002.")) {
		rest := b[i+1:]
		if v := version(rest); len(v) < len(rest) && rest[len(v)] == 0 {
			return v
		}
	}
	return ""
}

// version returns the version number at the start of b: digits and dots, as "2.13".
func version(b []byte) string {
	n := 0
	for n < len(b) && n < maxVersion && (b[n] == '.' || b[n] >= '0' && b[n] <= '9') {
		n++
	}
	v := strings.TrimRight(string(b[:n]), ".")
	if major, minor, _ := strings.Cut(v, "."); major == "" || minor == "" {
		return ""
	}
	return v
}
