// Package fallback finds out which files of libvfix.so and vfix-trace an image has, which it
// needs, and which call sites they cover.
package fallback

import (
	"context"
	"slices"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/hinterr"
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
//
// In an image they are
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
type Shim struct {
	Library   []byte // libvfix.so for 64-bit programs
	Library32 []byte // its empty twin for 32-bit programs
	Trace     []byte // vfix-trace, static
}

// Present reports whether this vfix has a fallback.
func (s *Shim) Present() bool { return len(s.Library) > 0 && len(s.Trace) > 0 }

// LibraryFiles are the files of the preload library, without ld.so.preload.
func (s *Shim) LibraryFiles(has32 bool) []contents.Extra {
	all := []contents.Extra{program(addedfiles.Library, s.Library)}
	if !has32 {
		return all
	}
	all = append(all, program(addedfiles.Library32, s.Library32))
	for _, name := range contents.SortedKeys(addedfiles.PlatformLinks) {
		all = append(all, contents.Extra{Name: addedfiles.Dir + "/" + name, Mode: 0o777, Link: addedfiles.PlatformLinks[name]})
	}
	return all
}

// TraceFile is the supervisor, vfix-trace.
func (s *Shim) TraceFile() contents.Extra { return program(addedfiles.Trace, s.Trace) }

func program(name string, body []byte) contents.Extra {
	return contents.Extra{Name: addedfiles.Dir + "/" + name, Mode: 0o755, Body: body}
}

// Choice is what a rebuild adds of the fallback.
type Choice struct {
	Files  []contents.Extra
	Traced bool // vfix-trace is put before the entrypoint
}

// Choose decides which files of the fallback a rebuild adds, and notes in the findings what they cover of the sites
// that it cannot patch.
func (s *Shim) Choose(ctx context.Context, f *contents.Findings, mode Mode) (c Choice, err error) {
	wanted := mode == FallbackAuto || mode == FallbackAlways
	if !s.Present() {
		if wanted {
			err = hinterr.Errorf(hinterr.ErrUnsupported, "this vfix was built without the fallback")
		}
		return c, err
	}
	left := f.Sites().Left > 0
	in, err := s.installed(ctx, f, wanted && left)
	if err != nil {
		return c, err
	}
	fb := in.found()
	unreached := in.unreachedFiles(f)
	library := mode == FallbackAlways || mode == FallbackAuto && left && in.reads[addedfiles.Loader64]
	if trace := mode == FallbackAlways || mode == FallbackAuto && len(unreached) > 0; trace {
		fb.Trace, fb.Wrapped, fb.Reasons = true, !in.wrapped, unreached
		c.Files = append(c.Files, s.TraceFile())
	}
	if library {
		fb.Library = fb.Library || in.hasLoader
		c.Files = append(append(c.Files, s.LibraryFiles(in.wide)...), in.preloadFile())
	}
	c.Traced = fb.Wrapped
	c.Files = slices.DeleteFunc(c.Files, in.has)
	for _, e := range c.Files {
		fb.Added = append(fb.Added, e.Name)
	}
	slices.Sort(fb.Added)
	in.cover(f, fb, false)
	return c, in.checkPlaces(c.Files)
}

// Find notes in the findings what the fallback in an image covers of all sites.
func (s *Shim) Find(ctx context.Context, f *contents.Findings) error {
	if !s.Present() {
		return nil
	}
	in, err := s.installed(ctx, f, false)
	if err == nil {
		in.cover(f, in.found(), true)
	}
	return err
}
