// The verb diagnose: its options, and the finding that a crash is.

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/crash"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/diagnose"
)

// DiagnoseOptions are the choices of vfix diagnose.
type DiagnoseOptions struct {
	printOptions
	workOptions
	root string
}

func newDiagnoseCommand(out *output, e engine) *cobra.Command {
	var opts DiagnoseOptions
	cmd := &cobra.Command{
		Use:   "diagnose [options] CRASH...",
		Short: "Explain a crash: was it the vsyscall page, and what fixes it",
		Long: `Read the traces of a crash and report what happened: the address and its
meaning, the function of the vsyscall page, the caller (file, symbol, build ID,
package), the machine code of the call, and the command that fixes it. A crash
with another cause is identified as such, but not analyzed unless it is one that
'vfix help other-causes' lists. Nothing is changed.

CRASH is one of

  a core file    of any 64-bit x86-64 program, plain, .gz or .zst; neither a
                 debugger nor debug symbols are needed
  a log          of the kernel, from dmesg, journalctl or syslog: a file, - for
                 stdin, or one line of it as a quoted argument
  a trace        of strace, sysdig, perf script or ftrace that contains the
                 signal or the page fault: given like a log
  a number       of a process: stopped at its crash, or in the kernel's log
                 (use pid:N if a file has that name)
  a message      of an engine or a shell, such as 'exec /x: exec format error':
                 given like a log
  a container    that has ended, by name or ID (or container:NAME): its exit
                 status, its image, and the kernel's log of that time

--root names the filesystem that the program ran in, a directory or an image.
Symbol, package and code come from its files, because a core does not contain
them. Without --root, the files of this machine are used. A file is not used if
its build ID or its first bytes show that it is not the one that crashed.`,
		Example: `  vfix diagnose core.1234
  vfix diagnose --root redis:2.8.22 core.1234     with the files of the image
  vfix diagnose /var/log/kern.log                 every crash in it
  vfix diagnose web-1                             a container that has ended
  vfix diagnose --format json core.1234.zst`,
		Annotations: exits(`  0  no vsyscall crash: a crash with another cause, or none
  3  vsyscall crash: the page was called and the kernel does not serve it
  4  a crash whose cause is not known from what was given
  1  at least one CRASH could not be read; the rest were   2  usage error`),
		Args:              sourceArgs("diagnose", "CRASH", -1),
		ValidArgsFunction: completeNames(e, allContainers),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDiagnose(cmd.Context(), opts, args, out, e)
		},
	}
	cmd.Flags().StringVar(&opts.root, "root", "", "`SOURCE` of the program's files, a directory or an image: see 'vfix help sources'")
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	return cmd
}

func runDiagnose(ctx context.Context, opts DiagnoseOptions, args []string, out *output, e engine) error {
	platform, err := opts.workOptions.check("diagnose")
	if err != nil {
		return err
	}
	if err := opts.printOptions.check("diagnose"); err != nil {
		return err
	}
	o := crash.Options{Root: opts.root, Media: opts.media(platform, out.StartProgress(ctx, opts.progress))}
	all, err := e.diagnose(ctx, args, o)
	out.EndProgress()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	errs := flatten(err)
	if len(all) > 0 {
		errs = append(errs, out.diagnosis(opts.printOptions, all))
	}
	for _, r := range all {
		errs = append(errs, vsyscallCrashes(r), unknownCrashes(r))
	}
	return errors.Join(errs...)
}

// vsyscallCrashes is the finding that a result is, nil for none.
func vsyscallCrashes(r *diagnose.Result) error {
	n, fix := 0, ""
	for _, c := range r.Crashes {
		if c.Kind.Vsyscall() {
			n += c.Count
			if fix == "" && len(c.Fixes) > 0 {
				fix = c.Fixes[0].Command
			}
		}
	}
	if n == 0 {
		return nil
	}
	hint := "vfix cannot fix reads of the page; boot a kernel with vsyscall=emulate"
	if fix != "" {
		hint = "run: " + fix
	}
	return &findingsError{msg: r.Input + ": " + crashes(n), hint: hint}
}

// unknownCrashes is the finding that nothing says what the crashes were of which a result has no cause.
func unknownCrashes(r *diagnose.Result) error {
	n := 0
	for _, c := range r.Crashes {
		if c.Kind == diagnose.Unknown {
			n += c.Count
		}
	}
	if n == 0 {
		return nil
	}
	return &findingsError{
		incomplete: true, msg: fmt.Sprintf("%s: %s with an unknown cause", r.Input, screen.Count(n, "crash")),
		hint: "the notes say what would tell; 'vfix help diagnosing' has the ways to collect it",
	}
}

func crashes(n int) string { return screen.Count(n, "vsyscall crash") }
