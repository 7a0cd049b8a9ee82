// Command vfix patches the calls to the x86-64 vsyscall page in legacy programs, images
// and root filesystems, so that they reach the vDSO.
//
// It parses, calls packages images and host, and prints. A verb is <verb>.go; what several verbs share is in files
// named after what it is. Nothing but main prints an error or ends the process.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/shim"
)

func main() {
	os.Exit(vfix(untilSignal(), os.Args[1:], os.Stdout, os.Stderr, theEngine))
}

// vfix executes one command line and returns its exit status. The end of ctx ends the work, with its cause as the error.
func vfix(ctx context.Context, args []string, stdout, stderr io.Writer, e engine) int {
	out := newOutput(stdout, stderr)
	first := strings.Join(args[:min(len(args), 1)], "")
	if err := shim.Check(); err != nil && first != "help" { // help explains what to do
		out.fail(err)
		return statusError
	}
	root := newRootCommand(out, e, first)
	if strings.HasPrefix(first, cobra.ShellCompRequestCmd) {
		describe(root)
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx) // whatever error the cancelled work returned
	}
	if usage, is := errors.AsType[*exit](err); is && usage.status == statusUsage && usage.hint == "" {
		usage.hint = "run 'vfix help'"
		if cmd.HasParent() {
			usage.hint = "run 'vfix " + cmd.Name() + " --help'"
		}
	}
	all := flatten(err)
	if err := out.Flush(); err != nil && !slices.ContainsFunc(all, func(e error) bool { return !isFinding(e) }) {
		all = []error{err}
	}
	for _, err := range all {
		out.fail(err)
	}
	return exitStatus(errors.Join(all...))
}

// oneSignal is how long after a signal another one counts as the same: timeout(1) sends its signal to the process and
// then to the process group, of which the process is one.
const oneSignal = 200 * time.Millisecond

// untilSignal returns a context that the first of the signals that end a program cancels, with stopped as its
// cause. A second one, after oneSignal, ends the process at once. A signal that vfix was started to ignore (nohup, a
// shell's background job) stays ignored.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals, pipe := make(chan os.Signal, 1), make(chan os.Signal, 1)
	ending := slices.DeleteFunc([]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	if len(ending) > 0 { // Notify without a signal means all
		signal.Notify(signals, ending...)
	}
	// A caught SIGPIPE makes a write to a closed pipe fail with EPIPE, also on stdout and stderr, which would end the
	// process before it has cleaned up (os/signal, SIGPIPE).
	signal.Notify(pipe, syscall.SIGPIPE)
	go func() {
		cancel(stopped((<-signals).(syscall.Signal)))
		time.Sleep(oneSignal)
		signal.Reset(ending...)
	}()
	return ctx
}
