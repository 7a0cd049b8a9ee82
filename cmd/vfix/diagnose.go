// The verb diagnose: its options, its output, and crashes as findings.

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/internal/textutil"
)

// DiagnoseOptions are the choices of vfix diagnose.
type DiagnoseOptions struct {
	workOptions
	root string
}

func newDiagnoseCommand(out *output, e engine) *cobra.Command {
	var opts DiagnoseOptions
	cmd := &cobra.Command{
		Use:  "diagnose [options] CRASH...",
		Args: arguments("CRASH", 1, -1),
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
	if diagnose.Quoted(args) {
		return usagef("diagnose", "%d arguments that are one line of a text: quote it, as in: vfix diagnose %s", len(args), textutil.Quote(strings.Join(args, " ")))
	}
	if err := opts.begin("diagnose", out); err != nil {
		return err
	}
	var here place
	if e.answers != nil {
		ctx, cancel := context.WithTimeout(ctx, engineLimit)
		defer cancel()
		here.noEngine = !e.answers(ctx, opts.read.Media)
	}
	all, err := e.diagnose(ctx, args, crashOptions{
		root: opts.root, scan: opts.read,
		output: func(source string) []string { return strings.Fields(here.output(source)) },
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	errs := flatten(err)
	if len(all) > 0 {
		errs = append(errs, out.diagnosis(opts.printOptions, all))
	}
	for _, r := range all {
		errs = append(errs, crashFinding(r, opts.json()))
	}
	return errors.Join(errs...)
}

// crashFinding is the finding of a result, nil without one. The hint is the next command only if stdout has JSON: the text
// there ends with it.
func crashFinding(r *diagnose.Result, json bool) error {
	page, open, printed := 0, 0, false
	hint := "'vfix help diagnosing' explains how to collect more evidence"
	for _, c := range r.Crashes {
		switch {
		case c.Kind.Page():
			page += c.Count
		case c.Kind.Open():
			open += c.Count
		default:
			continue
		}
		if c.Next != nil && page+open == c.Count {
			hint, printed = "run: "+c.Next.Command, !json
		}
	}
	var found *findingsError
	switch {
	case page > 0 && r.Crashes[0].Kind == diagnose.Affected:
		found = finding(hint, "%s: AFFECTED", r.Input)
	case page > 0:
		found = finding(hint, "%s: %s", r.Input, screen.Count(page, "vsyscall crash"))
	case open > 0:
		found = incompletef(hint, "%s: the cause of %s is not known", r.Input, screen.Count(open, "crash"))
	default:
		return nil
	}
	found.printed = printed
	return found
}

// jsonDiagnosis is the document of diagnose.
type jsonDiagnosis struct {
	// Results has one result for each CRASH that could be read.
	Results []*diagnose.Result `json:"results"`
}

func (o *output) diagnosis(opts printOptions, all []*diagnose.Result) error {
	if opts.json() {
		return o.document("diagnose", false, jsonDiagnosis{all})
	}
	const few = 5
	first := true
	for _, r := range all {
		if len(r.Crashes) == 0 {
			o.Hanging("", 0, fmt.Sprintf("%s: no crash found in %s of text. Other evidence: the kernel's log of that time, or the output of docker inspect or kubectl get pod -o json", r.Input, screen.Count(r.Lines, "line")))
		}
		for _, c := range r.Crashes[:min(len(r.Crashes), few)] {
			if !first {
				fmt.Fprintln(o.Stdout)
			}
			first = false
			o.crash(r.Input, c)
		}
		if n := len(r.Crashes) - few; n > 0 {
			fmt.Fprintf(o.Stdout, "\n%d more are not shown: --format json lists them all\n", n)
		}
	}
	return nil
}

// crash prints one crash: the verdict, what supports it, and the next command, which stays on one line to be copied.
func (o *output) crash(input string, c *diagnose.Crash) {
	paint := o.Out.Paint.Green
	if c.Kind.Page() {
		paint = o.Out.Paint.Red
	}
	o.Hanging("", 0, input+": "+c.Verdict+" ("+string(c.Confidence)+")")
	const label = 10 // columns
	row := func(name, text string) {
		if text != "" {
			o.Hanging(screen.Gap+o.Out.Paint.Dim(screen.Pad(name, label, false)), label+len(screen.Gap), text)
		}
	}
	row("program", programText(c))
	row("container", c.Container)
	row("pod", c.Pod)
	row("image", c.Image)
	if k := c.Caller; k != nil {
		row("caller", callerText(k))
		row("code", k.Code)
	}
	for _, line := range c.Evidence { // as it was given
		fmt.Fprintln(o.Stdout, screen.Gap+o.Out.Paint.Dim(screen.Pad("evidence", label, false))+screen.Printable(line))
	}
	for _, n := range c.Notes {
		row("note", n)
	}
	if c.Next != nil {
		fmt.Fprintln(o.Stdout, screen.Gap+paint(screen.Pad("next", label, false))+o.Out.Paint.Bold(screen.Printable(c.Next.Command)))
		row("", c.Next.Why)
	}
}

// programText names the program and its processes.
func programText(c *diagnose.Crash) string {
	text := c.Path
	if text == "" {
		text = c.Program
	}
	switch {
	case c.Count > 1:
		text += fmt.Sprintf(", %d times", c.Count)
	case len(c.PIDs) == 1:
		text += fmt.Sprintf(", pid %d", c.PIDs[0])
	}
	return strings.TrimPrefix(text, ", ")
}

// callerText says where the call was made.
func callerText(k *diagnose.Caller) string {
	text := fmt.Sprintf("%s+%#x", k.Module, k.Offset)
	if k.Symbol != "" {
		text += " in " + k.Symbol
	}
	for _, more := range []string{k.Libc, k.BuildID} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}
