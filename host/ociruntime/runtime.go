// Package ociruntime is vfix-runtime: an OCI runtime in front of the real one. On create
// and run it reads the bundle, has patched copies of the files that call the vsyscall page
// take the place of the originals, and then executes the real runtime in its own place.
// Every other command goes through untouched.
//
// The order of work, one file each:
//
//	args       what the engine typed: runc's command line, as far as it matters
//	spec       the bundle's config.json: what is read of it, and the splice that adds mounts
//	mountinfo  what the root filesystem is: an overlay, an engine's folder, any other folder
//	look       which files of the root need patches
//	tree       which files of a folder call the page: examine looks at one, indexes remember
//	patch      the patched copy of a file, and its mount; replace puts it into the root itself
//	fix        what is fixed besides calls of the page, and the files for it
//	prepare    the order of a start: joins these
//	log        the one line with the reason if something was not done
package ociruntime

import (
	"errors"
	"fmt"
	"io"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/rewriter/find"
)

// Options are what vfix-runtime must know of the binary that it is part of.
type Options struct {
	// Maker is a text that differs where patched copies do: the version of vfix.
	Maker func() string
	// Version is that of vfix, for the record.
	Version string
	// The programs of the fallback: libvfix.so, its empty 32-bit twin, vfix-trace.
	Library, Library32, Trace func() []byte
	// Stdin has the container's state if this is the hook.
	Stdin  io.Reader
	Stderr io.Writer
}

// Run is Main as a program of its own: it prints an error, and returns the exit status. It returns only
// where the real runtime was not executed.
func Run(args []string, o Options) int {
	err := Main(args, o)
	if err == nil {
		return 0
	}
	fmt.Fprintf(o.Stderr, "vfix: error: %s\nvfix: hint: %s\n", OneLine(err.Error()), Hint(err))
	return 1
}

// errRefused: the policy keeps the container from starting.
var errRefused = errors.New("container not started (fail-closed)")

// Hint says what to do about an error of Main.
func Hint(err error) string {
	if errors.Is(err, errRefused) {
		return "fix the cause, or turn fail_closed off in " + policy.ConfigFile + "; allow_disable there lets containers opt out with " + policy.AnnotationEnable + "=false"
	}
	return "name the real runtime with --runtime, or in " + policy.ConfigFile
}

// maker names what makes copies of files, and what is looked for in them.
func (o *Options) maker(fix []find.Fix) (maker string) {
	if o.Maker != nil {
		maker = o.Maker()
	}
	for _, r := range fix {
		maker += " " + string(r)
	}
	return maker
}

// Indexed is what is known of an image's layers.
type Indexed struct {
	Layers  int
	New     int     // layers that were examined now
	Files   int     // that call the vsyscall page, all layers together
	Unread  int     // that could not be examined
	Seconds float64 // that it took
}
