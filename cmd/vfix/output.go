// Where the verbs print. The rules of output are in package screen.

package main

import (
	"errors"
	"io"

	"vfix.dev/vfix/cmd/vfix/hints"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/internal/hinterr"
)

// output prints the results of verbs, as text or JSON, and errors.
type output struct{ *screen.Output }

func newOutput(stdout, stderr io.Writer) *output { return &output{screen.New(stdout, stderr)} }

// fail prints an error and what to do about it. Findings are told, not an error.
func (o *output) fail(err error) {
	var found *findingsError
	if err == screen.ErrBrokenPipe || errors.As(err, &found) && found.told {
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
