// The verb doctor: its options, and its report.

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/doctor"
)

func newDoctorCommand(out *output, e engine) *cobra.Command {
	var o doctor.Options
	all := false
	cmd := newVerb("doctor [options]", noArguments, func(ctx context.Context, _ []string) error {
		report, err := e.doctor(ctx, o)
		if err != nil {
			return err
		}
		failed := report.Failed()
		err = out.show(false, jsonDoctor{failed, report}, func(s screen.Stream) { writeReport(s, report, all) })
		if err == nil && len(failed) > 0 {
			return finding("'vfix doctor --all' prints the details and what to do", "%s failed: %s", screen.Count(len(failed), "check"), strings.Join(failed, ", "))
		}
		return err
	})
	f := cmd.Flags()
	f.BoolVar(&all, "all", false, "print the details of each check")
	f.StringSliceVar(&o.Checks, "check", nil, "run only these `CHECKS`: "+strings.Join(doctor.Names(), ", "))
	choices(cmd, "check", doctor.Names())
	f.BoolVar(&o.Quick, "quick", false, "shorter measurements")
	addFormat(cmd)
	return cmd
}

type jsonDoctor struct {
	Failed []string `json:"failed"` // checks
	*doctor.Report
}

// writeReport prints the answer, and a line for each check; all adds recommendations and details.
func writeReport(s screen.Stream, r *doctor.Report, all bool) {
	if r.Answer != "" {
		s.Print(r.Answer, s.Paint.Bold, "")
	}
	paint := map[doctor.Verdict]func(string) string{
		doctor.OK: s.Paint.Green, doctor.Warn: s.Paint.Yellow, doctor.Fail: s.Paint.Red, doctor.Skipped: s.Paint.Dim,
	}
	const indent = "         " // as wide as a verdict
	do := ""
	for _, c := range r.Checks {
		s.Print(fmt.Sprintf("%-7s  %-10s  ", c.Verdict, c.Name), paint[c.Verdict], c.Found)
		if do == "" || c.Verdict == doctor.Fail {
			do = c.Do
		}
		if !all {
			continue
		}
		s.List(indent, c.Details)
		if c.Do != "" {
			s.Print(indent+"do: ", nil, c.Do)
		}
	}
	if do != "" && !all {
		fmt.Fprintln(s)
		s.Print("do: ", s.Paint.Bold, do)
	}
}
