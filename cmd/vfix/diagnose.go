// The verb diagnose: its options, its output, and crashes as findings.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/diagnose"
)

func newDiagnoseCommand(out *output, e engine) *cobra.Command {
	var opts workOptions
	root := ""
	cmd := newVerb("diagnose [options] CRASH...", arguments("CRASH", 1, -1), func(ctx context.Context, args []string) error {
		if diagnose.IsLine(args) {
			args = []string{strings.Join(args, " ")}
		}
		all, err := e.diagnose(ctx, args, crashOptions{root: root, scan: opts.read, output: destinations(ctx, e, opts.read.Media)})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(all) > 0 {
			err = errors.Join(err, out.show(false, jsonDiagnosis{all}, func(s screen.Stream) { writeDiagnosis(s, all) }))
		}
		for _, r := range all {
			err = errors.Join(err, crashFinding(r))
		}
		return err
	})
	cmd.Flags().StringVar(&root, "root", "", "`SOURCE` of the program's files: see 'vfix help sources'")
	opts.add(cmd, out, withImages)
	return cmd
}

// jsonDiagnosis is the document of diagnose.
type jsonDiagnosis struct {
	// Results has one result for each CRASH that could be read.
	Results []*diagnose.Result `json:"results"`
}

// crashFinding is the finding of a result, nil without one. The hint is the next command only if stdout has JSON: the text
// there ends with it.
func crashFinding(r *diagnose.Result) error {
	page, open := 0, 0
	var first *diagnose.Crash // that counts
	for _, c := range r.Crashes {
		switch {
		case c.Kind.Page():
			page += c.Count
		case c.Kind.Open():
			open += c.Count
		default:
			continue
		}
		first = cmp.Or(first, c)
	}
	if first == nil {
		return nil
	}
	hint := "'vfix help diagnosing' explains how to collect more evidence"
	if first.Next != nil {
		hint = "run: " + first.Next.Command
	}
	found := incompletef(hint, "%s: the cause of %s is not known", r.Input, screen.Count(open, "crash"))
	if page > 0 {
		found = finding(hint, "%s: %s", r.Input, screen.Count(page, "vsyscall crash"))
	}
	if first.Kind == diagnose.Affected {
		found = finding(hint, "%s: AFFECTED", r.Input)
	}
	found.inText = first.Next != nil
	return found
}

// writeDiagnosis prints few crashes of each result.
func writeDiagnosis(s screen.Stream, all []*diagnose.Result) {
	const few = 5
	gap := ""
	for _, r := range all {
		if len(r.Crashes) == 0 {
			s.Print("", nil, fmt.Sprintf("%s: no crash found in %s of text. Other evidence: the kernel's log of that time, or the output of docker inspect or kubectl get pod -o json. Other causes: 'vfix help other-causes'", r.Input, screen.Count(r.Lines, "line")))
		}
		for _, c := range r.Crashes[:min(len(r.Crashes), few)] {
			fmt.Fprint(s, gap)
			writeCrash(s, r.Input, c)
			gap = "\n"
		}
		if n := len(r.Crashes) - few; n > 0 {
			fmt.Fprintf(s, "\n%d more are not shown: --format json lists them all\n", n)
		}
	}
}

// writeCrash prints one crash: the verdict, what supports it, and the next command, which stays on one line to be copied.
func writeCrash(s screen.Stream, input string, c *diagnose.Crash) {
	s.Print("", nil, input+": "+c.Verdict+" ("+string(c.Confidence)+")")
	const label = "  %-10s"
	row := func(name, text string) {
		if text != "" {
			s.Print(fmt.Sprintf(label, name), s.Paint.Dim, text)
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
		fmt.Fprintln(s, s.Paint.Dim(fmt.Sprintf(label, "evidence"))+screen.Printable(line))
	}
	for _, n := range c.Notes {
		row("note", n)
	}
	if c.Next != nil {
		fmt.Fprintln(s, s.Paint.Dim(fmt.Sprintf(label, "next"))+s.Paint.Bold(screen.Printable(c.Next.Command)))
		row("", c.Next.Why)
	}
}

// programText names the program and its processes.
func programText(c *diagnose.Crash) string {
	text := cmp.Or(c.Path, c.Program)
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
	symbol := ""
	if k.Symbol != "" {
		symbol = " in " + k.Symbol
	}
	parts := []string{fmt.Sprintf("%s+%#x%s", k.Module, k.Offset, symbol), k.Libc, k.BuildID}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}
