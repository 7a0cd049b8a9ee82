// The words that users read: none of those that readers stopped at, and none of Go's own.

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// turns are turns of phrase that read as translated, with a better wording; then British spellings, and words of Go.
var turns = []struct{ bad, better string }{
	{`\b[Tt](?:ells|old|elling)\b`, "say, report, show"},
	{`\b[Ww]here (?:it|they|this|that|none|there|no|nothing) `, "if, when, without"},
	{`\b[Ss]tands? (?:on|behind|in)\b`, "is"},
	{`\bwants[ ,.;:]`, "needs, expects"},
	{`, too[.;:,)]`, "also"},
	{`\b(?:is|are|was|were) to be\b`, "must, should"},
	{`\banew\b`, "again"},
	{`\bbut for\b`, "except"},
	{`\b(?:[Mm]end|[Rr]epair)(?:s|ed|ing)?\b`, "fix"},
	{`\b[Ff]olders?\b`, "directory"},
	{`[Nn]othing to do is done|not obeyed|in the wrong\b|fault in vfix|says of itself|apart by|\bthe way back\b|says? what to type`, "a plain sentence"},
	{`[Cc]olour|[Bb]ehaviour|[Nn]eighbour|\b[Ll]icence|[Aa]nalys(?:e[ds]?|ing)\b|(?:[Rr]ecogn|[Oo]rgan|[Nn]ormal|[Ss]ummar)is(?:e|ing)|[Cc]ancell(?:ed|ing)\b`, "American spelling"},
	{`strconv\.|\b(?:stat|open|mkdir|unlink|rename)at:? |<nil>|%!|invalid syntax|value out of range`, "not Go's words"},
}

var codeSpan = regexp.MustCompile("`[^`]*`")

// stilted lists the turns in a text, with better words.
func stilted(text string) (found []string) {
	text = codeSpan.ReplaceAllString(text, "")
	for _, turn := range turns {
		if m := regexp.MustCompile(turn.bad).FindString(text); m != "" {
			found = append(found, strconv.Quote(m)+": better "+turn.better)
		}
	}
	return found
}

// eachFile calls f with the files below a directory that have an ending, without tests.
func eachFile(t *testing.T, dir, ending string, f func(path string, content []byte)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ending) || strings.HasSuffix(path, "_test.go") {
			return err
		}
		n++
		content, err := os.ReadFile(path)
		if err == nil {
			f(path, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Errorf("%s: no %s files", dir, ending)
	}
}

// The pages, and the strings in the sources, have none of the turns.
func TestPlainWords(t *testing.T) {
	check := func(path string, content []byte) {
		for n, line := range strings.Split(string(content), "\n") {
			for _, found := range stilted(line) {
				t.Errorf("%s, line %d: %s", path, n+1, found)
			}
		}
	}
	for _, dir := range []string{"docs", "deploy"} {
		eachFile(t, dir, ".md", check)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "tests/README.md"} {
		check(name, []byte(read(t, filepath.Join("..", "..", name))))
	}
	for _, dir := range []string{"cmd", "images", "host", "internal"} {
		eachFile(t, dir, ".go", func(path string, content []byte) {
			for line, text := range literals(t, path, content) {
				for _, found := range stilted(text) {
					t.Errorf("%s, line %d: %s", path, line, found)
				}
			}
		})
	}
}

// The control: bad sentences are seen, good ones are not.
func TestWordsAreSeen(t *testing.T) {
	for text, want := range map[string]int{
		"as the log tells": 1, "left where it is": 1, "it stands in the list": 1, "a file that wants root": 1, "its children, too.": 1,
		"what is to be done": 1, "opens it anew": 1, "all but for one": 1, "a file to repair": 1, "error: <nil>": 1, "the folder": 1, "no colour": 1,
		"`told`": 0, "the place where docker looks": 0, "you want to fix it": 0, "a stand-in": 0, "wants=(a b)": 0,
	} {
		if got := stilted(text); len(got) != want {
			t.Errorf("%s: got %q, want %d", text, got, want)
		}
	}
}

// literals are the strings of a Go file by their line, without those of imports, struct tags and regular expressions.
func literals(t *testing.T, path string, src []byte) map[int]string {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return n.Tag == nil
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "MustCompile" || s.Sel.Name == "Regexp") {
				return false
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				all[files.Position(n.Pos()).Line] += text + "\n"
			}
		}
		return true
	})
	return all
}
