// The commands in the pages: each vfix command line in them parses, and each block of code says
// what it is.

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a fenced block of a page.
type block struct {
	kind string // the word after the fence, "" for output
	text string
	line int
}

func blocks(text string) []block {
	var list []block
	open := false
	for n, line := range strings.Split(text, "\n") {
		switch kind, isFence := strings.CutPrefix(strings.TrimLeft(line, " "), "```"); {
		case isFence && !open:
			open, list = true, append(list, block{kind: kind, line: n + 2})
		case isFence:
			open = false
		case open:
			list[len(list)-1].text += line + "\n"
		}
	}
	return list
}

// kinds are the marks of blocks: sh runs as it is with an engine and an image; shell needs a machine, a cluster or
// another tool, and is only parsed; console has commands behind a $ and what they print.
var kinds = []string{"", "sh", "shell", "console", "dockerfile", "yaml", "json", "text", "asm", "bash"}

// commandLine is vfix with its arguments up to what ends a command in a shell.
var commandLine = regexp.MustCompile(`(?:^|[|;&(] ?|\$\(|&& |RUN |exec >\S+ 2>&1; )(?:/vfix/|bin/)?vfix ((?:"[^"]*"|'[^']*'|[^"'|;&()<>#\n])*)`)

func TestCommandsOfPages(t *testing.T) {
	top, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string][]byte{}
	collect := func(path string, content []byte) { pages[path] = content }
	for _, dir := range []string{"docs", "deploy"} {
		eachFile(t, dir, ".md", collect)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md"} {
		content, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		collect(name, content)
	}
	t.Chdir(t.TempDir()) // reports are written
	seen := 0
	check := func(path string, content []byte) {
		for _, b := range blocks(string(content)) {
			if !slices.Contains(kinds, b.kind) {
				t.Errorf("%s, line %d: a block of %s, want one of %q", path, b.line, b.kind, kinds)
			}
			text := strings.ReplaceAll(b.text, "\\\n", " ")
			for line := range strings.Lines(text) {
				switch b.kind {
				case "sh", "shell", "dockerfile":
				case "console":
					var isCommand bool
					if line, isCommand = strings.CutPrefix(line, "$ "); !isCommand {
						continue
					}
				default:
					continue
				}
				for _, m := range commandLine.FindAllStringSubmatch(line, -1) {
					seen++
					args := shellWords(m[1])
					if len(args) > 0 && args[0] == "nri" {
						continue // runs until it is ended
					}
					if problem := misused(args); problem != "" {
						t.Errorf("%s, line %d: vfix %s: %s", path, b.line, m[1], problem)
					}
				}
			}
		}
	}
	for path, content := range pages {
		check(path, content)
	}
	const least = 50 // commands
	if seen < least {
		t.Errorf("%d commands found, want %d or more", seen, least)
	}
}

// misused returns the message if vfix refuses a command line as such. A panic is of a function that
// the fake engine does not have: the command line was accepted.
func misused(args []string) (problem string) {
	defer func() { _ = recover() }()
	if got := runLine(fake(clean(), nil), args...); got.status == statusUsage {
		return got.stderr
	}
	return ""
}

// shellWords are the words of a command line, without their quotation marks.
func shellWords(line string) []string {
	var list []string
	for _, w := range regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"'])+`).FindAllString(line, -1) {
		list = append(list, strings.NewReplacer(`"`, "", "'", "").Replace(w))
	}
	return list
}
