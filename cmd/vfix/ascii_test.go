// Tests of the output in a locale without UTF-8.

package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
)

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }

// Each verb and topic is explained in ASCII, and what a verb prints of names is escaped, in JSON without loss.
func TestASCII(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	names := append(topicNames(), verbs(newRootCommand(newOutput(io.Discard, io.Discard), engine{}))...)
	for _, name := range names {
		if got := runLine(engine{}, "help", name); got.status != 0 || !isASCII(got.stdout+got.stderr) {
			t.Errorf("help %s: status %d, not in ASCII", name, got.status)
		}
	}
	const file = "usr/lib/caf\u00e9.so \U0001f600"
	f := mixed()
	f.Files[0].Path = file
	e := fake(f, nil)
	for _, args := range [][]string{{"scan", "x"}, {"scan", "--explain", "x"}, {"scan", "--format", "json", "x"}, {"scan", "--format", "sarif", "x"}} {
		got := runLine(e, args...)
		if got.stdout == "" || !isASCII(got.stdout+got.stderr) {
			t.Errorf("%v: not in ASCII: %q %q", args, got.stdout, got.stderr)
		}
		if slices.Contains(args, "json") {
			var doc struct {
				Results []struct{ Files []struct{ Path string } }
			}
			if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil || doc.Results[0].Files[0].Path != file {
				t.Errorf("%v: got %+v, %v", args, doc, err)
			}
		}
	}
}

// Shells show the texts of options as they are: without the marks of the help.
func TestCompletionWithoutMarks(t *testing.T) {
	for _, name := range verbs(newRootCommand(newOutput(io.Discard, io.Discard), engine{})) {
		if got := runLine(engine{}, "__complete", name, "--"); strings.Contains(got.stdout, "`") || name != "runtime" && !strings.Contains(got.stdout, "--help") {
			t.Errorf("%s: got %s", name, got.stdout)
		}
	}
}
