// The fallback in an image: what catches the call sites that stay, and those that come
// later. Its files are
//
//	vfix/x86_64/libvfix.so  the preload library, for every dynamic program
//	vfix/i686/libvfix.so    its empty twin, for 32-bit programs (if there are any)
//	vfix/vfix-trace         the supervisor, for programs that no preload reaches
//	etc/ld.so.preload       one line that names the library
//
// A 32-bit loader reads the same /etc/ld.so.preload, and complains on stderr about a
// library of the other class. The line then says $PLATFORM, which each loader replaces by
// the kernel's AT_PLATFORM: x86_64 for a 64-bit process and i686 for a 32-bit one on the
// same kernel (arch/x86/include/asm/elf.h). $LIB would not do: it is "lib" for Debian 6's
// 64-bit loader and for CentOS's 32-bit one.

package fallback

import (
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/rewriter/find"
)

// Mode says when a rebuild adds the fallback. The zero value is as FallbackNever.
type Mode string

// The modes of --fallback.
const (
	FallbackAuto   Mode = "auto"   // if live call sites cannot be patched
	FallbackAlways Mode = "always" // in any case, supervisor included
	FallbackNever  Mode = "never"
)

// Shim is the programs of the fallback, as package shim embeds them. The caller passes
// them, so that this package does not depend on package shim.
type Shim struct {
	Library   []byte // libvfix.so for 64-bit programs
	Library32 []byte // its empty twin for 32-bit programs
	Trace     []byte // vfix-trace, static
}

// Present reports whether this vfix has a fallback.
func (s *Shim) Present() bool { return len(s.Library) > 0 && len(s.Trace) > 0 }

// TracePath is the supervisor in an image.
const TracePath = "/" + traceName

// Names of the fallback's files in an image.
const (
	traceName   = addedfiles.Dir + "/" + addedfiles.Trace
	libraryName = addedfiles.Dir + "/" + addedfiles.Library
	twinName    = addedfiles.Dir + "/" + addedfiles.Library32
)

// LibraryFiles are the files of the preload library, without ld.so.preload.
func (s *Shim) LibraryFiles(has32 bool) []contents.Extra {
	all := []contents.Extra{{Name: libraryName, Mode: 0o755, Body: s.Library}}
	if !has32 {
		return all
	}
	all = append(all, contents.Extra{Name: twinName, Mode: 0o755, Body: s.Library32})
	for _, name := range contents.SortedKeys(addedfiles.PlatformLinks) {
		all = append(all, contents.Extra{Name: addedfiles.Dir + "/" + name, Mode: 0o777, Link: addedfiles.PlatformLinks[name]})
	}
	return all
}

// Names are those of all files of the fallback that an image may get; none without a fallback.
func (s *Shim) Names() []string {
	if !s.Present() {
		return nil
	}
	names := []string{addedfiles.Preload, traceName}
	for _, e := range s.LibraryFiles(true) {
		names = append(names, e.Name)
	}
	return names
}

// TraceFile is the supervisor, vfix-trace.
func (s *Shim) TraceFile() contents.Extra {
	return contents.Extra{Name: traceName, Mode: 0o755, Body: s.Trace}
}

// noPreload says why a preload does nothing for the sites left in a file, "" if it does.
func (in *installed) noPreload(r *find.Report) string {
	switch {
	case r.Static:
		return "a static program: nothing loads libvfix.so into it"
	case r.Go:
		return "made by Go, which sets its signal handlers by system calls of its own"
	case r.RawSignals:
		return "it sets up signals by system calls of its own"
	case r.Interp != "" && !in.reads[r.Interp]:
		return r.Interp + " loads it, and does not read /etc/ld.so.preload"
	case !in.reads[addedfiles.Loader64]:
		return "no glibc loader in the image, which would read /etc/ld.so.preload"
	}
	return ""
}
