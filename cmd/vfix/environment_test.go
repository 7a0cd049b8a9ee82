// Each variable that vfix reads is on the page about them.

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unlisted are what only the build sets, and what the page writes as ~.
var unlisted = map[string]bool{"SOURCE_DATE_EPOCH": true, "HOME": true}

func TestEnvironmentIsDocumented(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference.md"))
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`\b(?:os\.Getenv|os\.LookupEnv|userDir)\("([A-Z][A-Z0-9_]*[A-Z0-9])"`)
	seen := 0
	for _, top := range []string{"cmd", "host", "images", "internal", "rewriter"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range read.FindAllSubmatch(text, -1) {
				if name := string(m[1]); !unlisted[name] {
					seen++
					if !strings.Contains(string(page), "`"+name+"`") {
						t.Errorf("%s reads %s, which docs/reference.md does not have", path, name)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 10 {
		t.Errorf("%d variables found: the search is wrong", seen)
	}
}
