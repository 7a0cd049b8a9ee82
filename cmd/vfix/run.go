// The verb run: its options, and why a program could not be started.

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/run"
	"vfix.dev/vfix/internal/hinterr"
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
		Short: "Run a program on a kernel without the vsyscall page",
		Long: `Run CMD, which replaces vfix, so that it does not need the vsyscall page. This
works on any host, without a container and without changing a file. CMD is
looked up in PATH; all arguments after it belong to it. A script is treated like
its interpreter.

  static programs      are patched, and the copy in memory is executed: full
                       speed
  dynamic programs     get libvfix.so through LD_PRELOAD, and so do the programs
                       they start
  all others           run under vfix-trace: static programs with call sites
                       that cannot be patched, and dynamic ones that set up
                       signals by system calls of their own, such as Go programs

A program that is executed from memory has a different /proc/self/exe, and 'ps
-o comm' shows a number. libvfix.so is written to a directory vfix-UID-... in
TMPDIR, /tmp, $XDG_RUNTIME_DIR, /var/tmp, /dev/shm or ~/.cache, the first from
which programs can be executed. You can delete it when nothing uses it.

A program that is setuid, setgid or has file capabilities runs unchanged, with a
warning: it would lose these privileges as a copy, preloaded or traced. Ignored
signals are reset to their default action for CMD, except SIGHUP (nohup), SIGINT
and the job control signals.`,
		Example: `  vfix run ./signalp -t euk proteins.fasta      a static scientific program
  vfix run --explain tmhmm x.fa                 show the method and the reason
  vfix run bash                                 and all that this shell starts
  vfix run --way trace ./old-server -d          force vfix-trace`,
		Annotations: exits(`  that of CMD, including signals, because CMD replaces vfix; otherwise
  125  vfix could not start it   126  CMD cannot be executed
  127  CMD was not found           2  usage error`),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("run", "no CMD given")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runRun(opts, args, out, e) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the arguments after CMD belong to CMD
	f.BoolVar(&opts.explain, "explain", false, "report on stderr which method is used and why")
	f.StringVar(&opts.way, "way", string(run.Auto), "start it with this `METHOD`: auto, memfd (patched, in memory), preload, or trace")
	choices(cmd, "way", run.Ways)
	return cmd
}

func runRun(opts StartOptions, args []string, out *output, e engine) error {
	shim := fallbackShim()
	o := run.Options{
		Way: run.Way(opts.way), Warn: out.Warn,
		Library: shim.Library, Library32: shim.Library32, Trace: shim.Trace,
	}
	if opts.explain {
		o.Explain = func(format string, a ...any) { out.Note("run: %s", fmt.Sprintf(format, a...)) }
	}
	if err := e.run(args, o); err != nil {
		return &startError{hinterr.Among(err, startHints, "try another method: --way trace works for most programs; see 'vfix run --help'")}
	}
	return nil
}

// startError is why vfix run could not start a program.
type startError struct{ error }

func (e *startError) Unwrap() error { return e.error }

var startHints = []hinterr.For{
	{Err: run.ErrNoCommand, Hint: "check the spelling and PATH"},
	{Err: run.ErrNotExecutable, Hint: "check its mode with 'ls -l' and its type with 'file'"},
	{Err: run.ErrUnsupported, Hint: "run it on the machine or in the container that the program is for"},
}

func (e *startError) status() int {
	switch {
	case errors.Is(e.error, run.ErrNoCommand):
		return statusNoCommand
	case errors.Is(e.error, run.ErrNotExecutable):
		return statusNotExec
	}
	return statusNotStarted
}
