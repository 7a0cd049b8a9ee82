// The verb doctor: its options, and its report.

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/doctor"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/shim"
)

// DoctorOptions are the choices of vfix doctor.
type DoctorOptions struct {
	printOptions
	checks []string
	quick  bool
	all    bool
}

func newDoctorCommand(out *output, e engine) *cobra.Command {
	var opts DoctorOptions
	cmd := &cobra.Command{
		Use:  "doctor [options]",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), opts, out, e) },
	}
	f := cmd.Flags()
	f.BoolVar(&opts.all, "all", false, "print the details of each check")
	f.StringSliceVar(&opts.checks, "check", nil, "run only these `CHECKS`: "+strings.Join(doctor.Names(), ", "))
	choices(cmd, "check", doctor.Names())
	f.BoolVar(&opts.quick, "quick", false, "shorter measurements")
	opts.addFormat(cmd)
	return cmd
}

func runDoctor(ctx context.Context, opts DoctorOptions, out *output, e engine) error {
	report, err := e.doctor(ctx, doctor.Options{Checks: opts.checks, Program: shim.Measure(), Quick: opts.quick})
	if err != nil {
		return hinterr.Among(err, []hinterr.For{{Err: doctor.ErrUnsupported, Hint: "run it on the machine or virtual machine whose kernel the containers use"}},
			"vfix runs a small program to measure: set TMPDIR to a directory from which programs may be executed")
	}
	if opts.json() {
		err = out.document("doctor", false, jsonDoctor{report.Failed(), report})
	} else {
		out.doctor(report, opts.all)
	}
	if err != nil {
		return err
	}
	if failed := report.Failed(); len(failed) > 0 {
		return finding("'vfix doctor --all' prints the details and what to do", "%s failed: %s", screen.Count(len(failed), "check"), strings.Join(failed, ", "))
	}
	return nil
}

type jsonDoctor struct {
	Failed []string `json:"failed"` // checks
	*doctor.Report
}

// doctor prints the answer, and a line for each check; all adds recommendations and details.
func (o *output) doctor(r *doctor.Report, all bool) {
	const verdicts, names = 7, 10 // columns: the longest of each
	p := o.Out.Paint
	if r.Answer != "" {
		o.Hanging(p.Bold(r.Answer), 0, "")
	}
	paint := map[doctor.Verdict]func(string) string{
		doctor.OK: p.Green, doctor.Warn: p.Yellow, doctor.Fail: p.Red, doctor.Skipped: p.Dim,
	}
	indent := strings.Repeat(" ", verdicts+len(screen.Gap))
	do := ""
	for _, c := range r.Checks {
		head := paint[c.Verdict](screen.Pad(string(c.Verdict), verdicts, false)) + screen.Gap + screen.Pad(c.Name, names, false) + screen.Gap
		o.Hanging(head, verdicts+names+2*len(screen.Gap), c.Found)
		if do == "" || c.Verdict == doctor.Fail {
			do = c.Do
		}
		if !all {
			continue
		}
		for _, line := range c.Details {
			o.Hanging(indent, len(indent), line)
		}
		if c.Do != "" {
			o.Hanging(indent+"do: ", len(indent), c.Do)
		}
	}
	if do != "" && !all {
		fmt.Fprintln(o.Stdout)
		o.Hanging(p.Bold("do: "), len("do: "), do)
	}
}
