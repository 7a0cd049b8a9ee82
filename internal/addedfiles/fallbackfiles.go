// Knows where the files of the fallback are and how /etc/ld.so.preload
// names them: in an image, in a container that is patched at its start, on a host.

// Package addedfiles knows the files that vfix adds to a root filesystem: those of the fallback, and those of fixes.
package addedfiles

import (
	"bytes"
	"slices"
	"strings"
)

// Paths below Dir, a directory in the root of a container or on a host.
const (
	Dir       = "vfix"
	Trace     = "vfix-trace"
	Library   = "x86_64/libvfix.so" // for 64-bit programs
	Library32 = "i686/libvfix.so"   // its empty twin for 32-bit programs
)

// TracePath is the supervisor in an image.
const TracePath = "/" + Dir + "/" + Trace

// Preload is the file that the loader reads (ld.so(8)), below a root.
const Preload = "etc/ld.so.preload"

// The lines of Preload: if all programs are 64-bit ones, and if not.
const (
	PlainLine    = "/" + Dir + "/" + Library
	PlatformLine = "/" + Dir + "/$PLATFORM/libvfix.so"
)

// PlatformLinks are further values of $PLATFORM, and the directory that each stands for. glibc 2.26 to
// 2.36 names some 64-bit processors itself (sysdeps/x86/cpu-features.c); a 32-bit glibc may
// say i386 to i686 (sysdeps/i386/dl-machine.h, sysdeps/x86/cpu-features.c).
var PlatformLinks = map[string]string{
	"haswell": "x86_64", "xeon_phi": "x86_64",
	"i386": "i686", "i486": "i686", "i586": "i686",
}

// Loaders32 are where 32-bit glibc's loader is, below a root (ABI i386, and the multiarch
// directory that Debian keeps it in). It reads the same Preload.
var Loaders32 = []string{"lib/ld-linux.so.2", "lib/i386-linux-gnu/ld-linux.so.2"}

// Loader64 is where the x86-64 psABI puts glibc's loader, below a root.
const Loader64 = "lib64/ld-linux-x86-64.so.2"

// PreloadLine is the line of Preload: wide if there are also 32-bit programs.
func PreloadLine(wide bool) string {
	if wide {
		return PlatformLine
	}
	return PlainLine
}

// NamesLibrary reports whether a content of Preload names a library. Names are separated by white
// space or colons; # begins a comment (glibc, elf/rtld.c, dl_main).
func NamesLibrary(content []byte, library string) bool {
	for l := range bytes.Lines(content) {
		l, _, _ = bytes.Cut(l, []byte("#"))
		words := strings.FieldsFunc(string(l), func(r rune) bool { return strings.ContainsRune(": \t\n", r) })
		if slices.Contains(words, library) {
			return true
		}
	}
	return false
}

// WithPreloadLine is the content of Preload with our line added at the end: an earlier library's sigaction calls
// ours. The line for the other kind of root is replaced.
func WithPreloadLine(content []byte, wide bool) []byte {
	want, other := PreloadLine(wide), PreloadLine(!wide)
	if NamesLibrary(content, want) {
		return content
	}
	if NamesLibrary(content, other) {
		return bytes.ReplaceAll(content, []byte(other), []byte(want))
	}
	out := bytes.Clone(content)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return append(out, want+"\n"...)
}
