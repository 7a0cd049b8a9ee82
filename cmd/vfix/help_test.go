// Each verb and option has its help, each example of it parses, and no line is too long.

package main

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vfix.dev/vfix/cmd/vfix/markdown"
	"vfix.dev/vfix/docs"
)

func TestHelpIsComplete(t *testing.T) {
	var b bytes.Buffer
	root := newRootCommand(newOutput(&b, &b), engine{})
	all := runLine(engine{}, "help").stdout
	for _, name := range verbs(root) {
		if !strings.Contains(all, "\n  "+name+" ") {
			t.Errorf("%s: not in 'vfix help'", name)
		}
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
			t.Errorf("%s: --help and help differ, or are not a result: %+v", name, byFlag)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && (f.Usage == "" || !strings.Contains(byFlag.stdout, "--"+f.Name)) {
				t.Errorf("%s --%s: no help", name, f.Name)
			}
		})
		checkWidth(t, name, byFlag.stdout)
		for line := range strings.Lines(cmd.Example) {
			checkExample(t, line)
		}
	}
	checkWidth(t, "vfix help", all)
}

func TestTopics(t *testing.T) {
	list := runLine(engine{}, "help").stdout
	root := newRootCommand(newOutput(io.Discard, io.Discard), engine{})
	for _, topic := range topics() {
		got := runLine(engine{}, "help", topic.name)
		if got.status != 0 || got.stderr != "" || len(got.stdout) < 200 {
			t.Errorf("vfix help %s: got %+v", topic.name, got)
		}
		if !strings.Contains(list, "\n  "+topic.name+" ") {
			t.Errorf("vfix help does not list %s", topic.name)
		}
		if slices.Contains(verbs(root), topic.name) {
			t.Errorf("topic %s hides the help of the verb", topic.name)
		}
	}
	for _, name := range []string{"sources", "lists", "exit-status", "environment", "how-it-works", "fallback", "json", "json-schema"} {
		if !slices.Contains(topicNames(), name) {
			t.Errorf("no topic %s, which messages and helps name", name)
		}
	}
}

// The index names each page, and so each page is a topic.
func TestIndexIsComplete(t *testing.T) {
	files, err := fs.Glob(docs.Pages, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".md")
		if name != "README" && !slices.Contains(topicNames(), name) {
			t.Errorf("docs/README.md does not list %s", file)
		}
	}
}

// The output of vfix help is the page: each word of it; code to the letter; prose and tables
// within the width.
func TestTopicsArePages(t *testing.T) {
	for _, row := range indexRow().FindAllStringSubmatch(page("README"), -1) {
		topic := topic{name: cmp.Or(row[2], row[1])}
		source := source(row[1], row[2])
		got := markdown.Plain(source)
		printed := map[string]int{}
		for _, word := range pageWords(got) {
			printed[word]++
		}
		for _, word := range pageWords(markdown.Link().ReplaceAllString(notPrinted.ReplaceAllString(source, ""), "$1")) {
			if printed[word]--; printed[word] < 0 {
				t.Errorf("%s: %q is in the page more often than in the text", topic.name, word)
			}
		}
		code := map[string]bool{}
		inCode, output := false, false // output: what a command printed, as wide as it was
		for line := range strings.Lines(source) {
			switch {
			case strings.HasPrefix(line, "```"):
				inCode, output = !inCode, false
			case inCode && line != "\n":
				output = output || strings.HasPrefix(line, "$ ")
				line = strings.Repeat(" ", markdown.CodeIndent) + line
				if !output {
					checkWidth(t, topic.name, line)
				}
				code[line] = true
				if !strings.Contains(got, line) {
					t.Errorf("%s: code is missing: %s", topic.name, line)
				}
			}
		}
		if inCode {
			t.Errorf("%s: a code block has no end", topic.name)
		}
		for line := range strings.Lines(got) {
			if !code[line] {
				checkWidth(t, topic.name, line)
				if strings.Contains(line, "`") || markdown.Italic().MatchString(line) || strings.HasPrefix(strings.TrimSpace(line), "|") {
					t.Errorf("%s: Markdown in the text: %s", topic.name, line)
				}
			}
		}
	}
}

// notPrinted are the lines of Markdown that are marks alone, images and the ends of code.
var notPrinted = regexp.MustCompile(`(?m)^(\|[-|]+\||!\[.*|\x60{3}.*)$`)

// pageWords are the words of a text: letters and digits, nothing else.
func pageWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// Links in the pages and in the README files lead somewhere.
func TestLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, pattern := range []string{"*.md", "docs/*.md", "tests/*.md", "deploy/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files: %v", pattern, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range markdown.Link().FindAllStringSubmatch(string(b), -1) {
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
				} else if hasAnchor && !slices.Contains(anchors(t, to), anchor) {
					t.Errorf("%s: the link to %s leads to no heading", file, m[2])
				}
			}
		}
	}
}

// anchors are those of the headings of a page.
func anchors(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	code := false
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if !code && strings.HasPrefix(line, "#") {
			list = append(list, markdown.Anchor(strings.TrimLeft(line, "# ")))
		}
	}
	return list
}

// pinned is the commit of an action, which cannot be on a line of its own.
var pinned = regexp.MustCompile(`@[0-9a-f]{40}\b`)

func checkWidth(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > markdown.Width && !pinned.MatchString(line) {
			t.Errorf("%s: a line of %d columns, want at most %d: %s", name, n, markdown.Width, line)
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
		t.Errorf("example %q is not a vfix command", line)
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

// The topics and verbs that texts refer to exist.
func TestReferences(t *testing.T) {
	known := append(topicNames(), verbs(newRootCommand(newOutput(io.Discard, io.Discard), engine{}))...)
	refer := regexp.MustCompile(`vfix help\s+([a-z-]+)['` + "`" + `]`)
	seen := 0
	check := func(path string, text []byte) {
		for _, m := range refer.FindAllSubmatch(text, -1) {
			if seen++; !slices.Contains(known, string(m[1])) {
				t.Errorf("%s refers to vfix help %s, which does not exist", path, m[1])
			}
		}
	}
	for _, dir := range []string{"cmd", "images", "host", "rewriter", "internal"} {
		eachFile(t, dir, ".go", check)
	}
	for _, dir := range []string{"docs", "deploy"} {
		eachFile(t, dir, ".md", check)
	}
	const least = 30 // references
	if seen < least {
		t.Errorf("%d references found, want %d or more", seen, least)
	}
}

// The addresses that messages and SARIF files name are below the module's path.
func TestAddressesAreTheModules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	module := strings.Fields(string(text))[1]
	if want := "https://" + module + "/issues"; issues != want {
		t.Errorf("issues: got %s, want %s", issues, want)
	}
	if want := `"informationUri": "https://` + module + `"`; !strings.Contains(runLine(fake(clean(), nil), "scan", "--format", "sarif", "x").stdout, want) {
		t.Errorf("SARIF: no %s", want)
	}
}
