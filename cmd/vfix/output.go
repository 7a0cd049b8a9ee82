// Where the verbs print. The rules of output are in package screen.

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"vfix.dev/vfix/cmd/vfix/hints"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
)

// output prints the results of verbs, as text or JSON, and errors.
type output struct {
	*screen.Output
	// findingsStatus is the exit status for findings.
	findingsStatus int
}

func newOutput(stdout, stderr io.Writer) *output {
	return &output{screen.New(stdout, stderr), statusFindings}
}

// into has what work prints on stdout written to a file, which exists when the work is done, or has findings, and
// else is as it was; "" and - are stdout.
func (o *output) into(file string, work func() error) error {
	if file == "" || file == "-" {
		return work()
	}
	f, err := atomicfile.Create(file)
	if err != nil {
		return fmt.Errorf("-o %s: %w", file, err)
	}
	defer f.Discard()
	stdout, stream := o.Stdout, o.Out
	o.Stdout, o.Out = bufio.NewWriterSize(f, 64<<10), screen.Stream{}
	err = work()
	o.Stdout, o.Out, stdout = stdout, stream, o.Stdout
	if err != nil && !isOnly[*findingsError](err) {
		return err
	}
	if werr := errors.Join(stdout.Flush(), f.Commit()); werr != nil {
		return fmt.Errorf("-o %s: %w", file, werr)
	}
	o.Note("wrote %s", file)
	return err
}

// fail prints an error and what to do about it. Findings are a report, not an error.
func (o *output) fail(err error) {
	var found *findingsError
	if err == screen.ErrBrokenPipe || errors.As(err, &found) && found.printed {
		return
	}
	label := "error:"
	if found != nil {
		label = ""
	}
	var tried *hinterr.Tried
	if errors.As(err, &tried) {
		o.Say(label, o.Err.Paint.Red, tried.Head())
		for _, place := range tried.Places {
			o.Say("  tried:", o.Err.Paint.Dim, place.Error())
		}
	} else {
		o.Say(label, o.Err.Paint.Red, err.Error())
	}
	if hint := hints.Of(err, issues); hint != "" {
		o.Say("hint:", o.Err.Paint.Bold, hint)
	}
}
