// platforms type-checks a package of this module, with all that it imports, for other platforms than
// this one. To compile and link it for each takes ten times as long, and finds little more: nothing
// here is in assembly except for Linux.
//
// usage: go run ./tests/platforms PACKAGE OS/ARCHITECTURE…
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tests/platforms PACKAGE OS/ARCHITECTURE…")
		os.Exit(2)
	}
	status := 0
	for _, platform := range os.Args[2:] {
		problems, err := check(os.Args[1], platform)
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, p := range problems {
			fmt.Fprintf(os.Stderr, "platforms: %s: %s\n", platform, p)
			status = 1
		}
	}
	os.Exit(status)
}

// check returns what the packages of the module that pkg is made of have wrong on a platform.
func check(pkg, platform string) (problems []string, err error) {
	system, architecture, _ := strings.Cut(platform, "/")
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	cfg := &packages.Config{
		Mode: packages.LoadTypes | packages.NeedSyntax | packages.NeedDeps | packages.NeedModule,
		Env:  append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0"),
		ParseFile: func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
			f, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
			if rel, outside := filepath.Rel(here, name); f != nil && (outside != nil || strings.HasPrefix(rel, "..") || strings.HasPrefix(rel, ".cache")) {
				withoutBodies(f)
			}
			return f, err
		},
	}
	all, err := packages.Load(cfg, pkg)
	if err != nil {
		return nil, err
	}
	own := 0
	packages.Visit(all, nil, func(p *packages.Package) {
		if p.Module == nil || !p.Module.Main {
			return // imports are unused there, without the bodies
		}
		own++
		for _, e := range p.Errors {
			problems = append(problems, e.Error())
		}
	})
	if own < 2 {
		problems = append(problems, fmt.Sprintf("%s: got %d packages of this module, want several", pkg, own))
	}
	return problems, nil
}

// withoutBodies takes the functions' bodies out of other people's packages: their signatures are all
// that ours can misuse.
func withoutBodies(f *ast.File) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			fn.Body = nil
		}
	}
}
