// Each verb and option has its help, each example of it parses, no line is too long, and references lead somewhere.

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

func TestHelpIsComplete(t *testing.T) {
	root := newRootCommand(newOutput(io.Discard, io.Discard), engine{}, "")
	all := runLine(engine{}, "help").stdout
	checkWidth(t, "vfix help", all)
	for _, cmd := range root.Commands() {
		name := cmd.Name()
		if !cmd.IsAvailableCommand() || name == "help" {
			continue
		}
		byFlag, byVerb := runLine(engine{}, name, "--help"), runLine(engine{}, "help", name)
		if byFlag != byVerb || byFlag.status != 0 || byFlag.stderr != "" {
			t.Errorf("%s: --help and help differ, or are not a result: %+v", name, byFlag)
		}
		for _, part := range []string{"Usage: vfix " + name, "\n  vfix " + name, "\nExit status:\n"} {
			if name == "rebuild" {
				part = strings.Replace(part, "  vfix", "  docker run $(vfix", 1)
			}
			if !strings.Contains(byFlag.stdout, part) {
				t.Errorf("%s: no %q in its help", name, part)
			}
		}
		if short, _ := helpOf(name); short == "" || !strings.Contains(all, "\n  "+name+" ") {
			t.Errorf("%s: not in 'vfix help', or without a line", name)
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && (f.Usage == "" || !strings.Contains(byFlag.stdout, "--"+f.Name)) {
				t.Errorf("%s --%s: no help", name, f.Name)
			}
		})
		checkWidth(t, name, byFlag.stdout)
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

// Topics are pages and sections of pages, as they are written.
func TestTopics(t *testing.T) {
	for _, name := range append(topicNames(), "sources", "exit-status", "fallback", "limitations") {
		if got := runLine(engine{}, "help", name); got.status != 0 || got.stderr != "" || len(got.stdout) < 200 {
			t.Errorf("vfix help %s: got %+v", name, got)
		}
	}
	const text = "# Page\n\nx\n## One part\n\n```sh\n# a comment\n```\n### Below\ny\n## Next\nz\n"
	if got, found := section(text, "one-part"); !found || got != "## One part\n\n```sh\n# a comment\n```\n### Below\ny\n" {
		t.Errorf("a section: got %q, %v", got, found)
	}
	if _, found := section(text, "a-comment"); found {
		t.Error("a comment in code is taken for a heading")
	}
}

// The topics and verbs that texts refer to exist.
func TestReferences(t *testing.T) {
	known := verbs(newRootCommand(newOutput(io.Discard, io.Discard), engine{}, ""))
	refer := regexp.MustCompile(`vfix help\s+([a-z-]+)['` + "`" + `]`)
	seen := 0
	check := func(path string, text []byte) {
		for _, m := range refer.FindAllSubmatch(text, -1) {
			seen++
			name := string(m[1])
			if _, found := topic(name); !found && !slices.Contains(known, name) {
				t.Errorf("%s refers to vfix help %s, which does not exist", path, name)
			}
		}
	}
	for _, dir := range []string{"cmd", "images", "host", "internal"} {
		eachFile(t, dir, ".go", check)
	}
	for _, dir := range []string{"docs", "deploy"} {
		eachFile(t, dir, ".md", check)
	}
	const least = 20 // references
	if seen < least {
		t.Errorf("%d references found, want %d or more", seen, least)
	}
}

var link = regexp.MustCompile(`\[([^]]*)\]\(([^)\s]+)\)`)

// Links in the pages and in the README files lead somewhere.
func TestLinks(t *testing.T) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/help/*.md", "tests/*.md", "deploy/*/*.md"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files: %v", pattern, err)
		}
		for _, file := range files {
			for _, m := range link.FindAllStringSubmatch(read(t, file), -1) {
				target, anchor, hasAnchor := strings.Cut(m[2], "#")
				if strings.Contains(target, "://") {
					continue
				}
				to := file
				if target != "" {
					to = filepath.Join(filepath.Dir(file), target)
				}
				if _, err := os.Stat(to); err != nil {
					t.Errorf("%s: the link to %s leads nowhere", file, m[2])
				} else if _, found := section(read(t, to), anchor); hasAnchor && !found {
					t.Errorf("%s: the link to %s leads to no heading", file, m[2])
				}
			}
		}
	}
}

// read is the text of a file; that of a directory is empty.
func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if info, statErr := os.Stat(path); err != nil && (statErr != nil || !info.IsDir()) {
		t.Fatal(err)
	}
	return string(b)
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
