// The verb diagnose: its options, and the finding that a crash is.

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

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
		Short: "Explain a crash: was it the vsyscall page, and what mends it",
		Long: `Reads what a crash left behind and says what happened: the address and its
meaning, the function of the vsyscall page, the caller (file, symbol, build ID,
package), the machine code of the call, and the command that mends it. Where a
crash has another cause it says so, and no more. It changes nothing.

CRASH is one of

  a core file    of any 64-bit x86-64 program, plain, .gz or .zst; neither a
                 debugger nor debug symbols are needed
  a log          the kernel's, from dmesg, journalctl or syslog: a file, - for
                 stdin, or one line of it as an argument in quotes
  a trace        the same way: strace, sysdig, perf script, ftrace, with the
                 signal or the page fault in it
  a number       of a process: stopped at its crash, or gone and in the kernel's
                 log (pid:N where a file has that name)
  a container    that ended, by name or ID (container:NAME): its exit status,
                 its image, and the kernel's log of that time

--root names what the program ran in, a folder or an image: its files tell the
symbol, the package and the code, which are not in a core. Without it this
machine's files are looked at. A file that is not the one that crashed, by build
ID or by its first bytes, is not used.`,
		Example: `  vfix diagnose core.1234
  vfix diagnose --root redis:2.8.22 core.1234     with the image's files
  vfix diagnose /var/log/kern.log                 every crash in it
  vfix diagnose web-1                             an exited container
  vfix diagnose --format json core.1234.zst`,
		Annotations: exits(`  0  no crash of the vsyscall page: a crash of another kind, or none
  3  there is one: the page was called where the kernel does not serve it
  1  a CRASH could not be read (the others were)   2  usage`),
		Args:              sourceArgs("diagnose", "CRASH", -1),
		ValidArgsFunction: completeNames(e, allContainers),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDiagnose(cmd.Context(), opts, args, out, e)
		},
	}
	cmd.Flags().StringVar(&opts.root, "root", "", "take the files of the program from this folder or image, `SOURCE`: see 'vfix help sources'")
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
	o := diagnoseOptions{root: opts.root, media: opts.media(platform, out.startProgress(ctx, opts.progress))}
	all, err := e.diagnose(ctx, args, o)
	out.endProgress()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	errs := flatten(err)
	if len(all) > 0 {
		errs = append(errs, out.diagnosis(opts.printOptions, all))
	}
	for _, r := range all {
		if found := vsyscallCrashes(r); found != nil {
			errs = append(errs, found)
		}
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
	hint := "vfix does not mend a read of the page; a kernel with vsyscall=emulate serves it"
	if fix != "" {
		hint = "run: " + fix
	}
	return &findingsError{msg: r.Input + ": " + crashes(n), hint: hint}
}

func crashes(n int) string { return count(n, "vsyscall crash") }
