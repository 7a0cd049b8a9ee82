// The verb run: its options, and why a program could not be started.

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/run"
)

// StartOptions are the choices of vfix run.
type StartOptions struct {
	way     string
	explain bool
}

func newRunCommand(out *output, e engine) *cobra.Command {
	var opts StartOptions
	cmd := &cobra.Command{
		Use:   "run [options] CMD [ARG...]",
		Short: "Run a program here, on a kernel without the vsyscall page",
		Long: `Runs CMD in place of vfix, so that it does without the vsyscall page: for a host
or a cluster node, no container needed, no file changed. CMD is looked for in
PATH; its arguments are its own. Of a script the interpreter decides.

  a static program     is patched, and the copy in memory executed: full speed
  a dynamic one        gets libvfix.so by LD_PRELOAD, and so does what it starts
  what neither reaches runs under vfix-trace: static with call sites that cannot
                       be patched; dynamic ones that set up signals by system
                       calls of their own, as Go's do

A program in memory has another /proc/self/exe, and 'ps -o comm' shows a number.
libvfix.so lies in a folder vfix-UID-... of TMPDIR, /tmp or $XDG_RUNTIME_DIR,
the first that allows programs; it may be deleted when nothing uses it.

A program that is setuid, setgid or has file capabilities runs as it is, with a
warning: it would lose these as a copy, preloaded or traced. A signal that was
ignored has its default action for CMD, but for SIGHUP (nohup), SIGINT and those
of job control.`,
		Example: `  vfix run ./signalp -t euk proteins.fasta      a static scientific program
  vfix run --explain tmhmm x.fa                 which way is taken, and why
  vfix run bash                                 all that this shell starts, too
  vfix run --way trace ./old-server -d          by force under vfix-trace`,
		Annotations: exits(`  That of CMD, signals too: vfix is gone by then. Else
  125  vfix could not start it   126  CMD cannot be executed
  127  there is no such CMD        2  usage`),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("run", "no CMD given")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runRun(opts, args, out, e) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows CMD is CMD's
	f.BoolVar(&opts.explain, "explain", false, "say on stderr which way is taken, and why")
	f.StringVar(&opts.way, "way", string(run.Auto), "start it this `WAY`: auto, memfd (patched, in memory), preload, or trace")
	words(cmd, "way", run.Ways)
	return cmd
}

func runRun(opts StartOptions, args []string, out *output, e engine) error {
	if err := oneOf("run", "--way", opts.way, run.Ways); err != nil {
		return err
	}
	shim := fallbackShim()
	o := run.Options{
		Way: run.Way(opts.way), Warn: out.warn,
		Library: shim.Library, Library32: shim.Library32, Trace: shim.Trace,
	}
	if opts.explain {
		o.Explain = func(format string, a ...any) { out.note("run: %s", fmt.Sprintf(format, a...)) }
	}
	if err := e.run(args, o); err != nil {
		return &startError{err}
	}
	return nil
}

// startError is why vfix run could not start a program.
type startError struct{ error }

func (e *startError) Unwrap() error { return e.error }

func (e *startError) Hint() string {
	var own interface{ Hint() string }
	switch {
	case errors.As(e.error, &own):
		return own.Hint()
	case errors.Is(e.error, run.ErrNoCommand):
		return "check the name, and PATH"
	case errors.Is(e.error, run.ErrNotExecutable):
		return "check its mode with 'ls -l', and what it is with 'file'"
	case errors.Is(e.error, run.ErrUnsupported):
		return "run it on the machine, or in the container, that the program is for"
	}
	return "'vfix run --help' tells of other ways: --way trace works for most programs"
}

// isStart reports whether a program could not be started, for a reason of one kind.
func isStart(kind error) func(error) bool {
	return func(err error) bool {
		var s *startError
		return errors.As(err, &s) && (kind == nil || errors.Is(err, kind))
	}
}
