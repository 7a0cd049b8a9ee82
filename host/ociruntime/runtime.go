// Package ociruntime is vfix-runtime: an OCI runtime in front of the real one. On create and run it reads the
// bundle, replaces the files that call the vsyscall page by patched copies, and then executes the real runtime in
// its own process. It passes all other commands through unchanged.
//
// The order of work, one file each:
//
//	args       the engine's command line, which is runc's
//	spec       the bundle's config.json: what is read of it, and the splice that adds mounts
//	mountinfo  what the root filesystem is: an overlay, an engine's directory, any other directory
//	look       which files of the root need patches
//	tree       which files of a directory call the page: examine examines one, indexes has earlier results
//	patch      the patched copy of a file, and its mount; replace puts it into the root itself
//	fix        fixes besides calls of the page, and the files for them
//	prepare    the order of a start, which uses all of these
//	log        the one line with the reason if something was not done
package ociruntime

import (
	"errors"
	"fmt"
	"io"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/rewriter/find"
)

// Options are the facts about the binary that vfix-runtime is part of.
type Options struct {
	// Maker returns a text that changes whenever patched copies do: the version of vfix.
	Maker func() string
	// Version is that of vfix, for the record.
	Version string
	// The programs of the fallback: libvfix.so, its empty 32-bit twin, vfix-trace.
	Library, Library32, Trace func() []byte
	// Stdin has the container's state if this is the hook.
	Stdin  io.Reader
	Stderr io.Writer
}

// Run is Main as a program: it prints an error, and returns the exit status. It returns only if the real runtime
// was not executed.
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

// Hint returns the hint for an error of Main, "" for none.
func Hint(err error) string {
	if errors.Is(err, errRefused) {
		return "fix the cause, or turn fail_closed off in " + policy.ConfigFile + "; allow_disable there lets containers opt out with " + policy.AnnotationEnable + "=false"
	}
	return "name the real runtime with --runtime, or in " + policy.ConfigFile
}

// maker identifies what makes the copies of files and which fixes it looks for.
func (o *Options) maker(fix []find.Fix) (maker string) {
	if o.Maker != nil {
		maker = o.Maker()
	}
	for _, r := range fix {
		maker += " " + string(r)
	}
	return maker
}

// Indexed is the result of Index for an image's layers.
type Indexed struct {
	Layers  int
	New     int     // layers that were examined by this call
	Files   int     // that call the vsyscall page, all layers together
	Unread  int     // that could not be examined
	Seconds float64 // that it took
}
