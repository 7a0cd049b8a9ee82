// The command that vfix run hands on, and its exit statuses.

package main

import (
	"fmt"
	"strings"
	"testing"

	"vfix.dev/vfix/host/run"
	"vfix.dev/vfix/internal/hinterr"
)

// Everything after CMD is CMD's, options and all, and vfix keeps its own options.
func TestRunArguments(t *testing.T) {
	var args []string
	var passed run.Options
	e := engine{run: func(a []string, o run.Options) error {
		args, passed = a, o
		return nil
	}}
	for line, want := range map[string]string{
		"run ls --explain -la":          "ls --explain -la",
		"run --way trace -- -odd --way": "-odd --way",
		"run --explain sh -c x":         "sh -c x",
	} {
		args = nil
		if got := runLine(e, strings.Fields(line)...); got.status != 0 || strings.Join(args, " ") != want {
			t.Errorf("vfix %s: got %q, %+v, want %q", line, args, got, want)
		}
		if (passed.Way == run.Trace) != strings.Contains(line, "trace") || (passed.Explain != nil) != strings.Contains(line, "run --explain") {
			t.Errorf("vfix %s: host got %+v", line, passed)
		}
	}
	if passed.Warn == nil {
		t.Error("host gets no place for warnings")
	}
}

func TestRunStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{run.ErrNoCommand, 127},
		{fmt.Errorf("x: %w", run.ErrNotExecutable), 126},
		{hinterr.With(hinterr.ErrUnsupported, "on Linux"), 125},
		{fmt.Errorf("no directory"), 125},
	} {
		got := runLine(engine{run: func([]string, run.Options) error { return c.err }}, "run", "x")
		if got.status != c.want || got.stdout != "" || !strings.Contains(got.stderr, "\nvfix: hint: ") {
			t.Errorf("%v: got %+v, want status %d and a hint", c.err, got, c.want)
		}
	}
}
