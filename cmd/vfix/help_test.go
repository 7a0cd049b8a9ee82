// Each verb and option has its help, each example of it parses, and no line is too long.

package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestHelpIsComplete(t *testing.T) {
	var b bytes.Buffer
	root := newRootCommand(newOutput(&b, &b), engine{})
	for _, name := range verbs(root) {
		var cmd *cobra.Command
		for _, c := range root.Commands() {
			if c.Name() == name {
				cmd = c
			}
		}
		if cmd.Long == "" || cmd.Short == "" || cmd.Example == "" ||
			cmd.Annotations[exitAnnotation] == "" {
			t.Errorf("%s: its help lacks a text, an example or the exit statuses", name)
		}
		byFlag := runLine(engine{}, name, "--help")
		byVerb := runLine(engine{}, "help", name)
		if byFlag != byVerb || byFlag.status != 0 || byFlag.stderr != "" {
			t.Errorf("%s: --help and help differ, or are no result: %+v", name, byFlag)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || !strings.Contains(byFlag.stdout, "--"+f.Name) {
				t.Errorf("%s --%s: no help", name, f.Name)
			}
		})
		checkWidth(t, name, byFlag.stdout)
		for line := range strings.Lines(cmd.Example) {
			checkExample(t, line)
		}
	}
	checkWidth(t, "vfix help", runLine(engine{}, "help").stdout)
}

func TestTopics(t *testing.T) {
	list := runLine(engine{}, "help").stdout
	for _, topic := range topics {
		got := runLine(engine{}, "help", topic.name)
		if got.status != 0 || got.stderr != "" || len(got.stdout) < 200 {
			t.Errorf("vfix help %s: got %+v", topic.name, got)
		}
		if !strings.Contains(list, topic.name) {
			t.Errorf("vfix help does not list %s", topic.name)
		}
		if !strings.HasPrefix(topic.name, "json") {
			checkWidth(t, topic.name, got.stdout)
		}
	}
}

func checkWidth(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth {
			t.Errorf("%s: a line of %d columns, want at most %d: %s", name, n, helpWidth, line)
		}
	}
}

// checkExample has a command line of the help parsed: its options must exist and go together.
func checkExample(t *testing.T, line string) {
	t.Helper()
	line = strings.TrimSpace(line)
	if i := strings.Index(line, "$(vfix "); i >= 0 {
		line, _, _ = strings.Cut(line[i+2:], ")")
	}
	line, _, _ = strings.Cut(line, "  ") // the comment
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " | ")
	args := strings.Fields(line)
	if len(args) == 0 || args[0] != "vfix" {
		t.Errorf("example %q is no vfix command", line)
		return
	}
	if got := runLine(fake(clean(), nil), args[1:]...); got.status != 0 {
		t.Errorf("example %q: %+v", line, got)
	}
}

func TestVersion(t *testing.T) {
	defer func(v, c string) { version, commit = v, c }(version, commit)
	version, commit = "1.2.3", "0123abcd"
	if got := runLine(engine{}, "version"); !strings.HasPrefix(got.stdout, "vfix 1.2.3\ncommit    0123abcd") || got.status != 0 {
		t.Errorf("got %+v", got)
	}
	version = ""
	if got := runLine(engine{}, "version"); strings.HasPrefix(got.stdout, "vfix \n") {
		t.Errorf("without a version: got %q", got.stdout)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range shells {
		if got := runLine(engine{}, "completion", shell); got.status != 0 || !strings.Contains(got.stdout, "vfix") || got.stderr != "" {
			t.Errorf("completion %s: status %d, stderr %q", shell, got.status, got.stderr)
		}
	}
	if got := runLine(engine{}, "__complete", "scan", "--format", ""); !strings.HasPrefix(got.stdout, "table\njson\n") {
		t.Errorf("completion of --format: got %q", got.stdout)
	}
}
