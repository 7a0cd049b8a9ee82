// The words that users read: none of those that were found stilted, and none of Go's own.

package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// stilted are wordings that readers stopped at; better ones are the active voice, the present
// tense and the reader's own words: directory, fix, report, follow, print, resume.
var stilted = []string{
	`What you can type`, `\bmend(s|ed|ing)?\b`, `\b(tell|told|tells) of\b`, `whole of it`, `than (it|they) need be`,
	`need not believe`, `ha(s|ve) nothing to say`, `no more is said`, `[Rr]ead they are`, `does not do yet`,
	`\bgo(es)? on (where|from|here)\b`, `[Nn]othing to do is done`, `cannot be meant`, `\ble(ave|ft) (\S+ ){1,3}away\b`, `more than nothing`,
	`time is more than`, `\bso many (processes|BYTES|bytes)\b`, `\bit lives\b`, `\b[Ii]t lives\b`, `not obeyed`, `in the wrong\b`,
	`fault in vfix`, `rather none`, `\bapart by\b`, `which is here`, `tries them again`, `change to count`, `\b[Ss]tands? (on|behind)\b`,
	`stdout stands`, `says of itself`, `and nothing says`, `proved itself`, `look names up`, `to nobody`, `seen from its`, `best neighbours`,
	`give up a check`, `let one measurement`, `\bthe way back\b`, `is called one\b`, `is made of another kind`, `says? what to type`,
}

// turns are turns of phrase that read as translated, with a better wording. Neither texts nor
// comments have them.
var turns = []struct{ name, better, bad string }{
	{"tell", "say, report, show", `(?:cannot )?\b[Tt](ell|ells|old|elling)\b`},
	{"where it", "if, when, without", `(?:\b(?:says?|knows?|finds?|asks?|shows?|not|goes) )?\b[Ww]here (it|they|this|that|one|none|there|its?|no|nothing|each|vfix)\b`},
	{"What …", "a noun as the subject", `(?:^|[.:;!] |\| |\*\* )What\b[^?.;]*(?:[.;]|$)`},
	{"stands", "is", `\b([Ss]tands?|stood)\b(?: for|-ins?)?`},
	{"is no", "is not, has no", `(?:[Tt]here )?\b(?:is|are|was|were) (?:no|none)\b(?: longer| more| larger)?`},
	{"has X done", "an active verb", `\b(?:[Hh]as|[Hh]ave|[Hh]ad|having) (?:it|them|its|the|an?|each|every|another|other|somebody) (?:[a-z-]+ ){0,2}(?:done|made|read|run|written|taken|put|opened|examined|listed|changed|built|started|removed|printed|loaded|copied|mounted|tried|checked|asked)\b`},
	{"wants", "needs, expects", `\bwants[ ,.;:]`},
	{", too", "also", `,? too(?:[.;:,)]|$)`},
	{"is to be", "must, should", `\b(?:is|are|was|were) to be\b`},
	{"anew", "again", `\banew\b`},
	{"but for", "except", `\bbut for\b`},
	{"as X has it", "according to X", `\bas \S+ (?:\S+ )?(?:has|have|had) (?:it|them)\b`},
	{"repair", "fix", `\b(?:[Mm]end|[Rr]epair)(?:s|ed|ing)?\b`},
}

// good are what a pattern finds and what is idiomatic nevertheless.
var good = regexp.MustCompile(`^(?:[Tt]here .*|.* (?:longer|more|larger)|[Ss]tands for|stand for|stood for|[Ss]tand-ins?|cannot tell|(?:says?|knows?|finds?|asks?|shows?|not|goes) where .*)$`)

// countPatterns counts the patterns in the paragraphs of a text, a line each; report is called for each.
func countPatterns(text string, report func(line int, name, better, found string)) {
	for n, line := range strings.Split(text, "\n") {
		line = codeSpan.ReplaceAllString(line, "")
		for i, p := range patternTests() {
			for _, m := range p.FindAllString(line, -1) {
				if !good.MatchString(m) {
					report(n+1, turns[i].name, turns[i].better, strings.TrimSpace(m))
				}
			}
		}
	}
}

var codeSpan = regexp.MustCompile("`[^`]*`")

var patternTests = sync.OnceValue(func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, p := range turns {
		all = append(all, regexp.MustCompile(p.bad))
	}
	return all
})

// The pages have none of the patterns.
func TestPatternsInPages(t *testing.T) {
	check := func(path string, content []byte) {
		countPatterns(string(content), func(line int, name, better, found string) {
			t.Errorf("%s, line %d: %q (%s): better %s", path, line, found, name, better)
		})
	}
	for _, dir := range []string{"docs", "deploy"} {
		eachFile(t, dir, ".md", check)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "tests/README.md"} {
		content, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		check(name, content)
	}
}

// Comments and texts in the sources have none of the patterns.
func TestPatternsInSources(t *testing.T) {
	list, err := exec.Command("git", "-C", "../..", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("git ls-files: %v: this is not a clone", err)
	}
	for path := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if path == "cmd/vfix/words_test.go" || !isSource(path) {
			continue
		}
		content, err := os.ReadFile(filepath.Join("../..", path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		texts := commentsOf(string(content))
		if strings.HasSuffix(path, ".go") {
			texts = goTexts(t, path, content)
		}
		for line, text := range texts {
			countPatterns(text, func(_ int, name, better, bad string) {
				t.Errorf("%s, line %d: %q (%s): better %s", path, line, bad, name, better)
			})
		}
	}
}

// isSource reports whether a file has comments in one of the forms that commentsOf knows.
func isSource(path string) bool {
	switch filepath.Ext(path) {
	case ".md", ".json", ".svg", ".sum", ".mod", ".html", ".txt", ".css":
		return false
	}
	return !strings.Contains(path, "testdata/")
}

var commentMark = regexp.MustCompile(`^\s*(?://|#+|/?\*+/?)\s*(.*?)(?:\s*\*/)?\s*$`)

// commentsOf are the texts of a C file, a shell script or similar, by their line: comments as paragraphs, other lines
// as they are.
func commentsOf(content string) map[int]string {
	texts := map[int]string{}
	paragraph := 0 // the line that it begins at, 0 for none
	for n, line := range strings.Split(content, "\n") {
		m := commentMark.FindStringSubmatch(line)
		switch {
		case m == nil:
			paragraph = 0
			texts[n+1] = line
		case m[1] == "" || strings.HasSuffix(m[1], ":"):
			paragraph = 0
			texts[n+1] = m[1]
		case paragraph == 0 || strings.Contains(line, "/*"):
			paragraph = n + 1
			texts[paragraph] = m[1]
		default:
			texts[paragraph] += " " + m[1]
		}
	}
	return texts
}

// goTexts are the comments of a Go file, as paragraphs, and its strings, by their line.
func goTexts(t *testing.T, path string, content []byte) map[int]string {
	texts := map[int]string{}
	for at, text := range literals(t, path, content) {
		line, err := strconv.Atoi(at)
		if err != nil {
			t.Fatal(err)
		}
		texts[line] = text
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, content, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range f.Comments {
		line := files.Position(group.Pos()).Line
		for _, paragraph := range strings.Split(group.Text(), "\n\n") {
			texts[line] += "\n" + strings.ReplaceAll(paragraph, "\n", " ")
		}
	}
	return texts
}

// The control: each pattern is found, and its better wording is not.
func TestPatternsAreSeen(t *testing.T) {
	count := func(text string) (n int) {
		countPatterns(text, func(int, string, string, string) { n++ })
		return n
	}
	for _, bad := range []string{
		"as the log tells", "left where it is", "the digest where there is one", "What it writes is a file.", "it stands in the list", "a figure that is no number",
		"has it done by another", "has the file examined", "a file that wants root", "its children, too", "what is to be done", "opens it anew", "all but for one",
		"as glibc has it", "a file to repair", "the ID is none", "It is read. What follows is not.",
	} {
		if count(bad) == 0 {
			t.Errorf("not seen: %s", bad)
		}
	}
	for _, better := range []string{
		"there is no vDSO", "it is no longer used", "VERSION stands for a number", "What does it cost?", "the file has a patched copy", "too large", "also its children",
		"`told`", "the place where docker looks", "you want to fix it", "a stand-in", "cannot tell the format", "nothing says where it ends", "wants=(a b)",
	} {
		if count(better) != 0 {
			t.Errorf("found in: %s", better)
		}
	}
}

// british are spellings that the texts do not use: they are in US English, as those of docker and
// Kubernetes are; and folder, which is called directory.
var british = []string{
	`\b[Ff]olders?\b`, `[Cc]olour`, `[Bb]ehaviour`, `[Nn]eighbour`, `[Ff]avour`, `[Hh]onour`, `\b[Ll]icence`, `\b[Aa]rtefact`, `\b[Cc]entre`, `\b[Cc]atalogue\b`,
	`[Aa]nalys(e[ds]?|ing)\b`, `\b([Rr]ecogn|[Oo]rgan|[Oo]ptim|[Mm]inim|[Mm]axim|[Ii]nitial|[Nn]ormal|[Ss]ummar|[Aa]uthor|[Ss]erial|[Ss]ynchron)is(e|ing|ation)`,
	`[Cc]ancell(ed|ing)\b`, `[a-z]isations?\b`, `[Ll]abell(ed|ing)\b`,
}

// ofGo are words of Go's errors and formats.
var ofGo = []string{
	`strconv\.`, `\b(stat|open|mkdir|unlink|rename)at:? `, `<nil>`, `%!`, `invalid syntax`, `value out of range`, `invalid memory address`,
}

func wordTest(words []string) *regexp.Regexp { return regexp.MustCompile(strings.Join(words, "|")) }

// checkWords reports the stilted words in a text.
func checkWords(t *testing.T, where, text string, bad *regexp.Regexp) {
	t.Helper()
	for n, line := range strings.Split(text, "\n") {
		if m := bad.FindString(line); m != "" {
			t.Errorf("%s, line %d: %q in: %s", where, n+1, m, strings.TrimSpace(line))
		}
	}
}

// eachFile calls f with the files below the top that have an ending.
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

func TestPlainWords(t *testing.T) {
	bad := wordTest(slices.Concat(stilted, british, ofGo))
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	checkWords(t, "README.md", string(readme), bad)
	eachFile(t, "docs", ".md", func(path string, content []byte) { checkWords(t, path, string(content), bad) })
	eachFile(t, "deploy/kubernetes", ".md", func(path string, content []byte) { checkWords(t, path, string(content), bad) })
	for _, dir := range []string{"cmd", "images", "host", "rewriter", "internal"} {
		eachFile(t, dir, ".go", func(path string, content []byte) {
			for at, text := range literals(t, path, content) {
				checkWords(t, path+":"+at, text, bad)
			}
		})
	}
}

// literals are the strings of a Go file by their line; those of imports, struct tags and
// regular expressions are nothing that a user reads.
func literals(t *testing.T, path string, src []byte) map[string]string {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field:
			_, isImport := n.(*ast.ImportSpec)
			return !isImport
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "MustCompile" {
				return false
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				if text, err := strconv.Unquote(n.Value); err == nil {
					all[strconv.Itoa(files.Position(n.Pos()).Line)] += text + "\n"
				}
			}
		}
		return true
	})
	return all
}

// The control: each word is found in a sentence with it, and good sentences have none.
func TestWordsAreSeen(t *testing.T) {
	for _, bad := range []string{
		"What you can type", "which command mends it", "'vfix help lists' tells of it", "slower than it need be", "You need not believe us",
		"their loader has nothing to say", "is called one, and no more is said", "Read they are at the first start", "What it does not do yet",
		"A run goes on where it was", "Nothing to do is done.", "the command line cannot be meant", "leave --push away", "want more than nothing",
		"by so many processes: 1", "; it lives in no container", "it is not obeyed", "a fault in vfix", "rather none than an unfixed one",
		"apart by spaces", "that of the last five which is here", "the same command tries them again", "for the change to count",
		"type what stands on stdout", "what it says of itself", "a file, and nothing says in which format", "once it has proved itself",
		"that this machine can look names up", "talks to nobody but", "is seen from its content", "best neighbours", "give up a check after",
		"let one measurement take", "the way back: x", `strconv.Atoi: parsing "x": invalid syntax`, "statat x: no", "error: <nil>", "%!d(string=x)",
		"the folder is not empty", "no colour", "is recognised by", "not analysed", "the licences", "a cancelled run",
		"the folder is not empty", "no colour", "is recognised by", "not analysed", "the licences", "a cancelled run",
	} {
		if !wordTest(slices.Concat(stilted, british, ofGo)).MatchString(bad) {
			t.Errorf("not seen: %s", bad)
		}
	}
	for _, good := range []string{"vfix resumes", "separated by spaces", "a recommended way", "the process lives on", "commend", "the state of the file", "the analysis", "a license", "authority", "the minimum"} {
		if m := wordTest(slices.Concat(stilted, british, ofGo)).FindString(good); m != "" {
			t.Errorf("%q is taken for bad in: %s", m, good)
		}
	}
}
