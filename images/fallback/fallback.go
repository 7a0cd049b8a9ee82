package fallback

import (
	"bytes"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter"
)

// The fallback in an image: what catches the call sites that stay, and those that come
// later. Its files are
//
//	vfix/x86_64/libvfix.so  the preload library, for every dynamic program
//	vfix/i686/libvfix.so    its empty twin, for 32-bit programs (where there are any)
//	vfix/vfix-trace         the supervisor, for programs that no preload reaches
//	etc/ld.so.preload       one line that names the library
//
// A 32-bit loader reads the same /etc/ld.so.preload, and complains on stderr about a
// library of the other class. The line then says $PLATFORM, which each loader replaces by
// the kernel's AT_PLATFORM: x86_64 for a 64-bit process and i686 for a 32-bit one on the
// same kernel (arch/x86/include/asm/elf.h). $LIB would not do: it is "lib" for Debian 6's
// 64-bit loader and for CentOS's 32-bit one.

// FallbackMode says when a rebuild adds the fallback. The zero value is FallbackNever.
type Mode string

// The modes of --fallback.
const (
	FallbackAuto   Mode = "auto"   // where live or unknown call sites stay
	FallbackAlways Mode = "always" // in any case, supervisor included
	FallbackNever  Mode = "never"
)

// Shim is the programs of the fallback, as package shim embeds them. This package is told
// them, so that it need not know what they are.
type Shim struct {
	Library   []byte // libvfix.so for 64-bit programs
	Library32 []byte // its empty twin for 32-bit programs
	Trace     []byte // vfix-trace, static
}

// Present reports whether this vfix has a fallback.
func (s *Shim) Present() bool { return len(s.Library) > 0 && len(s.Trace) > 0 }

// Where the fallback is in an image.
const (
	FallbackDir = "vfix"
	traceName   = FallbackDir + "/vfix-trace"
	libraryName = FallbackDir + "/x86_64/libvfix.so"
	twinName    = FallbackDir + "/i686/libvfix.so"
	PreloadName = "etc/ld.so.preload"

	// TracePath is the supervisor in an image.
	TracePath = "/" + traceName
	// The line of /etc/ld.so.preload: where every program is a 64-bit one, and where not.
	plainLine    = "/" + libraryName
	platformLine = "/" + FallbackDir + "/$PLATFORM/libvfix.so"
)

// platformLinks are further values of $PLATFORM, and whose folder is meant. glibc 2.26 to
// 2.36 names some 64-bit processors itself (sysdeps/x86/cpu-features.c); a 32-bit glibc may
// say i386 to i686 (sysdeps/i386/dl-machine.h, sysdeps/x86/cpu-features.c).
var platformLinks = map[string]string{
	"haswell": "x86_64", "xeon_phi": "x86_64",
	"i386": "i686", "i486": "i686", "i586": "i686",
}

// loaders32 are where 32-bit glibc's loader is (ABI i386, and the multiarch folder that
// Debian keeps it in).
var loaders32 = []string{"lib/ld-linux.so.2", "lib/i386-linux-gnu/ld-linux.so.2"}

// loader64 is where the x86-64 psABI puts glibc's loader, the one that reads ld.so.preload.
const loader64 = "lib64/ld-linux-x86-64.so.2"

// LibraryFiles are the files of the preload library, without ld.so.preload.
func (s *Shim) LibraryFiles(has32 bool) []contents.Extra {
	all := []contents.Extra{{Name: libraryName, Mode: 0o755, Body: s.Library}}
	if !has32 {
		return all
	}
	all = append(all, contents.Extra{Name: twinName, Mode: 0o755, Body: s.Library32})
	for _, name := range contents.SortedKeys(platformLinks) {
		all = append(all, contents.Extra{Name: FallbackDir + "/" + name, Mode: 0o777, Link: platformLinks[name]})
	}
	return all
}

func (s *Shim) TraceFile() contents.Extra {
	return contents.Extra{Name: traceName, Mode: 0o755, Body: s.Trace}
}

// preloadLine is the line of ld.so.preload.
func preloadLine(has32 bool) string {
	if has32 {
		return platformLine
	}
	return plainLine
}

// hasPreload reports whether a content of ld.so.preload names a library. Names are apart by
// white space or colons; # begins a comment (elf/rtld.c, dl_main).
func hasPreload(content []byte, line string) bool {
	for l := range bytes.Lines(content) {
		l, _, _ = bytes.Cut(l, []byte("#"))
		for _, w := range strings.FieldsFunc(string(l), func(r rune) bool { return strings.ContainsRune(": \t\n", r) }) {
			if w == line {
				return true
			}
		}
	}
	return false
}

// WithPreload is the content of ld.so.preload with our line in it, behind what is there:
// an earlier library's sigaction goes on to ours.
func WithPreload(content []byte, has32 bool) []byte {
	want, other := preloadLine(has32), preloadLine(!has32)
	if hasPreload(content, want) {
		return content
	}
	if hasPreload(content, other) {
		return bytes.ReplaceAll(content, []byte(other), []byte(want))
	}
	out := bytes.Clone(content)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return append(out, want+"\n"...)
}

// noPreload says why a preload does nothing for the sites left in a file, "" where it does.
func noPreload(r *rewriter.Report, hasLoader bool) string {
	switch {
	case r.Static:
		return "a static program: nothing loads libvfix.so into it"
	case r.Go:
		return "made by Go, which sets its signal handlers by system calls of its own"
	case r.RawSignals:
		return "it sets up signals by system calls of its own"
	case !hasLoader:
		return "no glibc loader in the image, which would read /etc/ld.so.preload"
	}
	return ""
}
