// The promises of docs/security.md each name the test that holds them: these tests must exist.

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestPromisesHaveTests(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "## vfix-runtime: promises\n")
	if !found {
		t.Fatal("no section of promises")
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| .* \| ([^|]*) \|$`).FindAllStringSubmatch(section, -1)
	const least = 10 // promises
	if len(rows) < least {
		t.Fatalf("got %d rows, want %d or more", len(rows), least)
	}
	for _, row := range rows[1:] { // behind the head
		for name := range strings.SplitSeq(row[1], ";") {
			if name = strings.Trim(strings.TrimSpace(name), "`"); !promised(t, name) {
				t.Errorf("no test %q", name)
			}
		}
	}
	// The control.
	for _, name := range []string{"a test that there is not", "TestThatThereIsNot", "`096`: what is about"} {
		if promised(t, name) {
			t.Errorf("%q: is said to be there", name)
		}
	}
}

// promised reports whether there is a test of that name: a Go test's, or one of bats' in
// tests/092-runtime-hostile.bats or the file whose number precedes it.
func promised(t *testing.T, name string) bool {
	if strings.HasPrefix(name, "Test") {
		return exec.Command("grep", "-rqE", "--include=*_test.go", "^func "+name+`\(t `, "../../host", "../../images", "../../cmd").Run() == nil
	}
	number := "092"
	if file, after, found := strings.Cut(name, "`: "); found {
		number, name = file, after
	}
	files, err := filepath.Glob("../../tests/" + number + "-*.bats")
	if err != nil || len(files) != 1 {
		return false
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^@test "[^"]*: ` + regexp.QuoteMeta(name) + `.*" \{( .* \})?$`).Match(text)
}
