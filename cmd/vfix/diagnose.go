// The verb diagnose: its options, and crashes as findings.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/crash"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/diagnose"
)

// DiagnoseOptions are the choices of vfix diagnose.
type DiagnoseOptions struct {
	workOptions
	root string
}

func newDiagnoseCommand(out *output, e engine) *cobra.Command {
	var opts DiagnoseOptions
	cmd := &cobra.Command{
		Use:   "diagnose [options] CRASH...",
		Short: "Explain a crash: was it the vsyscall page, and what fixes it",
		Long: `Read what a crash left behind and report what happened: the verdict in one
sentence with its confidence, the one command to type, and the evidence: the
address, the function of the vsyscall page, the caller (file, symbol, build ID,
package) and the machine code. A crash with another cause is reported as such,
and analyzed only if 'vfix help other-causes' lists the cause.
Nothing is changed.

CRASH is one of

  a core file    of any 64-bit x86-64 program, plain, .gz or .zst; neither a
                 debugger nor debug symbols are needed
  a log          of the kernel or of a systemd journal, from dmesg, journalctl
                 or syslog: a file, - for stdin, or one line as an argument
  a trace        of strace, sysdig, perf script or ftrace that contains the
                 signal or the page fault: given like a log
  a backtrace    of coredumpctl info or gdb: given like a log
  an end         such as 'web-1 exited with code 139': given like a log
  a description  docker inspect, docker ps -a, podman inspect, crictl inspect,
                 kubectl get pod -o json or -o yaml, kubectl describe pod:
                 a file, or - for stdin
  a container    that has ended, by name or ID (or container:NAME)
  a pod          of the cluster that kubectl uses: pod/NAME or
                 pod/NAMESPACE/NAME
  an image       of a local engine, or with a prefix, such as oci: or docker://:
                 whether its programs crash on this kernel
  a number       of a process: stopped at its crash, or in the kernel's log
                 (use pid:N if a file has that name)
  a message      of an engine or a shell, such as 'exec /x: exec format error':
                 given like a log

An exit status alone is not a cause. vfix examines the image, if a local engine
has it, and the kernel and the log of this machine, if the container ran here.
It looks up an image in a registry only if you use the prefix docker://.

--root names the filesystem that the program ran in, a directory, a tar archive
or an image.
Symbol, package and code come from its files, because a core does not contain
them. Without --root, the files of this machine are used. A file is ignored if
its build ID or its first bytes show that it is not the one that crashed.`,
		Example: `  vfix diagnose core.1234
  vfix diagnose --root redis:2.8.22 core.1234     with the files of the image
  vfix diagnose /var/log/kern.log                 every crash in it
  vfix diagnose web-1                             a container that has ended
  vfix diagnose pod/web                           the containers of a pod
  vfix diagnose --format json core.1234.zst`,
		Annotations: exits(`  0  no vsyscall crash: a crash with another cause, or none
  3  vsyscall crash, certain or likely; or an image that calls the page
  4  a crash whose cause is not known from what was given, or lines of no kind
     that vfix knows, which may report one
  1  at least one CRASH could not be read; the rest were   2  usage error`),
		Args:              sourceArgs("diagnose", "CRASH", -1),
		ValidArgsFunction: completeNames(e, allContainers),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDiagnose(cmd.Context(), opts, args, out, e)
		},
	}
	cmd.Flags().StringVar(&opts.root, "root", "", "`SOURCE` of the program's files: see 'vfix help sources'")
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	return cmd
}

func runDiagnose(ctx context.Context, opts DiagnoseOptions, args []string, out *output, e engine) error {
	if err := opts.begin("diagnose", out); err != nil {
		return err
	}
	o := crash.Options{Root: opts.root, Media: opts.read.Media, Shim: opts.read.Shim}
	o.Output = func(source string) []string {
		var here place
		if e.answers != nil {
			ctx, cancel := context.WithTimeout(ctx, engineLimit)
			defer cancel()
			here.noEngine = !e.answers(ctx, o.Media)
		}
		return strings.Fields(here.output(source))
	}
	all, err := e.diagnose(ctx, args, o)
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

// counted is how many crashes of a result are of a kind, and the hint for the first.
func counted(r *diagnose.Result, is func(diagnose.Kind) bool) (n int, next *diagnose.Fix) {
	for _, c := range r.Crashes {
		if is(c.Kind) {
			n += c.Count
			next = cmp.Or(next, c.Next)
		}
	}
	return n, next
}

// vsyscallCrashes is the finding for the vsyscall crashes of a result, nil without one.
func vsyscallCrashes(r *diagnose.Result) error {
	n, next := counted(r, diagnose.Kind.Vsyscall)
	if n == 0 {
		return nil
	}
	what := crashes(n)
	if r.Crashes[0].Kind == diagnose.Affected {
		what = "AFFECTED"
	}
	hint := "vfix cannot fix reads of the page; boot a kernel with vsyscall=emulate"
	if next != nil {
		hint = "run: " + next.Command
	} else if fixable, _ := counted(r, diagnose.Kind.Fixable); fixable > 0 {
		hint = "name the image that the program ran in: 'vfix diagnose --root IMAGE CRASH'"
	}
	return finding(hint, "%s: %s", r.Input, what)
}

// unreadWidth is how much of a line that is not understood a message quotes, in columns.
const unreadWidth = 80

// unknownCrashes is the finding that the cause of some crashes is unknown, or whether there were any crashes.
func unknownCrashes(r *diagnose.Result) error {
	n, next := counted(r, func(k diagnose.Kind) bool { return k == diagnose.Unknown })
	vsyscall, _ := counted(r, diagnose.Kind.Vsyscall)
	switch {
	case n == 0 && vsyscall == 0 && (r.Unread > 0 || !r.Understood):
		what := "nothing in it is about the end of a program"
		if r.Unread > 0 {
			what = fmt.Sprintf("vfix does not understand %d of %s", r.Unread, screen.Count(r.Lines, "line"))
		}
		if r.UnreadLine != "" {
			what += ", such as '" + shortened(screen.Printable(r.UnreadLine), unreadWidth) + "'"
		}
		return incompletef("give the kernel's log of that time alone, 'journalctl -k | vfix diagnose -', or the whole output of docker inspect "+
			"or kubectl get pod -o json; 'vfix help diagnose' lists the supported input",
			"%s: incomplete: %s", r.Input, what)
	case n == 0:
		return nil
	}
	hint := "the notes list the missing evidence; 'vfix help diagnosing' explains how to collect it"
	if next != nil {
		hint = "run: " + next.Command
	}
	return incompletef(hint, "%s: %s with an unknown cause", r.Input, screen.Count(n, "crash"))
}

func shortened(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width]) + "…"
	}
	return s
}

func crashes(n int) string { return screen.Count(n, "vsyscall crash") }
