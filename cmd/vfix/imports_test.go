// Packages import only downward.

package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The direction of imports is the architecture: cmd/vfix → images → rewriter → shim, never
// back. images knows no opcodes, rewriter opens no files and knows no network.

const module = "vfix.dev/vfix/"

// forbidden says what the packages below a directory may not import: a path, or one with all below it. Tests may.
var forbidden = map[string][]string{
	"shim":     {module, "os", "net", "io/fs", "golang.org/x/arch", "github.com"},
	"rewriter": {module + "cmd", module + "images", module + "host", module + "docs", "os", "net", "io/fs", "syscall", "github.com"},
	"images":   {module + "cmd", module + "host", module + "docs", module + "shim", "golang.org/x/arch", "debug/elf", "github.com/spf13"},
	"host":     {module + "cmd", module + "docs", "golang.org/x/arch", "github.com/spf13"}, // diagnose reads cores with debug/elf
	"internal": {module + "cmd", module + "images", module + "host", module + "docs", module + "shim", "golang.org/x/arch", "debug/elf", "net"},
	"docs":     {module},
	"cmd":      {"golang.org/x/arch", "debug/elf"},
}

func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	for dir, banned := range forbidden {
		seen := 0
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			seen++
			imports, err := importsOf(path, nil)
			for _, i := range imports {
				if b := match(i, banned); b != "" {
					t.Errorf("%s imports %s: %s may not import %s", path, i, dir, b)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if seen == 0 {
			t.Errorf("%s: no Go files: the table names a directory that is not there", dir)
		}
	}
}

// The program that engines execute at each start of a container stays small: no package that it does not need, nor one
// whose variables take long to make.
func TestRuntimeIsSmall(t *testing.T) {
	deps := func(program string) []string {
		cmd := exec.Command("go", "list", "-deps", "./cmd/"+program)
		cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	banned := []string{"net", "net/http", "crypto/tls", "github.com/spf13",
		"github.com/klauspost", "github.com/google", module + "images", module + "docs"}
	all := deps("vfix")
	for _, i := range deps("vfix-runtime") {
		if b := match(i, banned); b != "" {
			t.Errorf("vfix-runtime needs %s", i)
		}
		if !slices.Contains(all, i) && i != module+"cmd/vfix-runtime" {
			t.Errorf("vfix does not need %s: a list of what is in vfix leaves it out", i)
		}
	}
	// The control: vfix needs them all.
	for _, b := range banned {
		if !slices.ContainsFunc(all, func(i string) bool { return match(i, []string{b}) != "" }) {
			t.Errorf("%s: vfix does not need it either", b)
		}
	}
}

// The control: each ban is seen in a file that breaks it, and a neighbour's name is not.
func TestImportsAreSeen(t *testing.T) {
	for dir, banned := range forbidden {
		for _, b := range banned {
			path := strings.TrimSuffix(b, "/")
			imports, err := importsOf("x.go", "package x\nimport _ "+strconv.Quote(path+"/below"))
			if err != nil || len(imports) != 1 || match(imports[0], banned) == "" {
				t.Errorf("%s: import of %s/below is not seen: %v, %v", dir, path, imports, err)
			}
		}
	}
	if got := match("osmosis", []string{"os"}); got != "" {
		t.Errorf("osmosis is taken for %s", got)
	}
}

// importsOf returns what a Go file imports; src as for parser.ParseFile.
func importsOf(path string, src any) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// match returns the entry of banned that covers path, "" for none.
func match(path string, banned []string) string {
	for _, b := range banned {
		if path == b || strings.HasPrefix(path, strings.TrimSuffix(b, "/")+"/") {
			return b
		}
	}
	return ""
}
