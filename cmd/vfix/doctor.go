// The verb doctor: its options, and its report.

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/doctor"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/inventory"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/shim"
)

// DoctorOptions are the choices of vfix doctor.
type DoctorOptions struct {
	printOptions
	checks  []string
	quick   bool
	limit   time.Duration
	flood   string
	profile string
}

// doctorLimit is how long one check may take unless the user says otherwise.
const doctorLimit = 2 * time.Minute

func newDoctorCommand(out *output, e engine) *cobra.Command {
	var opts DoctorOptions
	cmd := &cobra.Command{
		Use:   "doctor [options]",
		Short: "Check how this host runs containers with legacy programs",
		Long: `Measure how this host treats legacy programs, and report what it means and what
to do about it. Nothing is changed and root is not required; checks that need
root say so.

  vsyscall    how the kernel serves the vsyscall page, and the cost of a call
  vdso        whether there is a vDSO, its functions and their cost
  clock       the clock source, and whether reading it enters the kernel
  seccomp     what a filter like docker's adds to the system call of a clock
  dentry      the kernel's cache of file names, before and while a neighbor
              floods it (bounded, and cleaned up)
  kernel-log  programs that have crashed on the vsyscall page
  cgroups     whether Java and old inits find their limits
  nofile      the limit of open files, and the time to close them all
  ia32        whether 32-bit programs run
  aslr        the randomness of addresses
  schema1     images that a current engine may not be able to pull again
  policy      which configuration of vfix-runtime is in force
  containers  images and running containers that need vfix

The result of each check is ok, warn (legacy programs run, at a cost), fail, or
skipped with the reason.`,
		Example: `  vfix doctor                             all checks
  vfix doctor --check vsyscall,vdso       two of them
  vfix doctor --quick                     fast: no flood, no images
  vfix doctor --format json               output for programs`,
		Annotations: exits(`  0  no check failed   3  at least one check failed
  1  the host could not be examined   2  usage error`),
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), opts, out, e) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&opts.checks, "check", nil, "run only these `CHECKS`: "+strings.Join(doctor.Names, ", "))
	choices(cmd, "check", doctor.Names)
	f.BoolVar(&opts.quick, "quick", false, "shorter measurements; do not flood, do not examine images")
	f.DurationVar(&opts.limit, "limit", doctorLimit, "`TIMEOUT` for each check")
	f.StringVar(&opts.flood, "flood-dir", "", "create the directory of the dentry check in `DIR`, on a disk (default: TMPDIR, /var/tmp, /tmp or the current directory)")
	f.StringVar(&opts.profile, "seccomp-profile", "", "use the seccomp profile in `FILE`, in docker's format, instead of docker's default")
	opts.printOptions.add(cmd)
	return cmd
}

func runDoctor(ctx context.Context, opts DoctorOptions, out *output, e engine) error {
	if opts.limit <= 0 {
		return usagef("doctor", "--limit %s: must be positive, such as 30s", opts.limit)
	}
	progress := out.StartProgress(ctx, opts.mode())
	media := media.Options{Options: registry.Options{Progress: progress, UserAgent: userAgent()}}.WithDefaults()
	o := doctor.Options{
		Checks: opts.checks, Program: shim.Measure(), Quick: opts.quick, Limit: opts.limit, FloodDir: opts.flood,
		Containers: containersOf(e, media),
		Stock:      func(ctx context.Context) ([]string, []inventory.Stocked, error) { return inventory.Stock(ctx, media) },
		Policy:     func() policy.InForce { return policy.Load("", false, "") },
		Started:    func(name string) { progress.Note("doctor: " + name) },
	}
	if opts.profile != "" {
		b, err := os.ReadFile(opts.profile)
		if err != nil {
			return err
		}
		o.Profile = b
	}
	report, err := e.doctor(ctx, o)
	out.EndProgress()
	if err != nil {
		return hinterr.Among(err, []hinterr.For{{Err: doctor.ErrUnsupported, Hint: "run it on the machine or virtual machine whose kernel the containers use"}},
			"vfix starts a small program to measure: it needs /proc, or a temporary directory (TMPDIR) that allows programs")
	}
	if err := out.doctor(opts.printOptions, report); err != nil {
		return err
	}
	if failed := report.Failed(); len(failed) > 0 {
		return finding("see 'do' below each of them; run 'vfix doctor --check NAME' to repeat one",
			"%s failed: %s", screen.Count(len(failed), "check"), strings.Join(failed, ", "))
	}
	return nil
}

// containersOf lets package images query the engines, for half of the check's time, so that the check can
// report what it left out.
func containersOf(e engine, o media.Options) func(context.Context) (*inventory.Inventory, error) {
	return func(ctx context.Context) (*inventory.Inventory, error) {
		enough, cancel := ctx, func() {}
		if end, ok := ctx.Deadline(); ok {
			enough, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		}
		defer cancel()
		return e.inventory(ctx, enough, images.ScanOptions{Media: o, Shim: fallbackShim()})
	}
}

func (o *output) doctor(opts printOptions, r *doctor.Report) error {
	if opts.json() {
		return o.document("doctor", false, struct {
			Failed []string `json:"failed"`
			*doctor.Report
		}{r.Failed(), r})
	}
	for i := range r.Checks {
		if i > 0 {
			fmt.Fprintln(o.Stdout)
		}
		o.check(&r.Checks[i])
	}
	return nil
}

// fewLines is how many lines are all shown; of more, only examples are shown.
const fewLines = 10

// check prints one check: its verdict and what decided it, then what it means.
func (o *output) check(c *doctor.Check) {
	p := o.Out.Paint
	paint := map[doctor.Verdict]func(string) string{
		doctor.OK: p.Green, doctor.Warn: p.Yellow, doctor.Fail: p.Red, doctor.Skipped: p.Dim,
	}[c.Verdict]
	const label, names = 7, 10 // columns: the longest verdict, the longest name
	head := paint(screen.Pad(string(c.Verdict), label, false)) + screen.Gap + p.Bold(screen.Pad(c.Name, names, false)) + screen.Gap
	o.Hanging(head, label+names+2*len(screen.Gap), c.Found)
	lines := c.Lines
	if len(lines) > fewLines {
		lines = append(slices.Clone(lines[:examples]), fmt.Sprintf("%d more are not shown: --format json lists them all", len(lines)-examples))
	}
	for _, l := range lines {
		o.Hanging(strings.Repeat(" ", label+len(screen.Gap)), label+len(screen.Gap), l)
	}
	under := func(name, text string) {
		if text != "" {
			o.Hanging(strings.Repeat(" ", label+len(screen.Gap))+name+screen.Gap, label+names+2*len(screen.Gap), text)
		}
	}
	under(p.Bold(screen.Pad("means", names, false)), c.Means)
	under(p.Bold(screen.Pad("do", names, false)), c.Do)
	for _, n := range c.Notes {
		under(screen.Pad("note", names, false), n)
	}
}
