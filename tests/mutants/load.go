package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A program is the package that is mutated, and the place of its mutated files.
type program struct {
	path, dir, module string
	mutants           []*mutant
	overlay           string // for go build -overlay
}

// load finds the mutants of a package and writes its files with all of them. A mutant that the compiler would
// not accept is left out.
func load(pattern, work string) (*program, error) {
	config := &packages.Config{Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule}
	loaded, err := packages.Load(config, pattern)
	if err != nil {
		return nil, err
	}
	if len(loaded) != 1 || len(loaded[0].Errors) > 0 || loaded[0].Module == nil {
		return nil, fmt.Errorf("%s: not one package that compiles: %v", pattern, loaded)
	}
	pkg := loaded[0]
	p := &program{path: pkg.PkgPath, module: pkg.Module.Dir}
	sources, of := map[string][]byte{}, map[string][]*mutant{}
	for i, file := range pkg.Syntax {
		name := pkg.CompiledGoFiles[i]
		p.dir = filepath.Dir(name)
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		short, err := filepath.Rel(p.module, name)
		if err != nil {
			return nil, err
		}
		sources[name] = src
		of[name] = find(pkg.Fset, pkg.TypesInfo, pkg.Types, file, src, short)
	}
	helperName := filepath.Join(p.dir, "mutants__.go")
	for {
		p.number(pkg.CompiledGoFiles, of)
		config.Overlay = map[string][]byte{helperName: fmt.Appendf(nil, helper, pkg.Name, len(p.mutants)+1)}
		for name, src := range sources {
			config.Overlay[name] = write(src, of[name])
		}
		loaded, err := packages.Load(config, pattern)
		if err != nil {
			return nil, err
		}
		if len(loaded[0].Errors) == 0 {
			break
		}
		if err := leaveOut(of, loaded[0].Errors); err != nil {
			return nil, err
		}
	}
	replace := map[string]string{}
	for name, text := range config.Overlay {
		to := filepath.Join(work, filepath.Base(name))
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return nil, err
		}
		replace[name] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	p.overlay = filepath.Join(work, "overlay.json")
	return p, os.WriteFile(p.overlay, text, 0o644)
}

// number numbers the mutants from 1, and distinguishes equal ones of one function.
func (p *program) number(names []string, of map[string][]*mutant) {
	p.mutants = nil
	seen := map[string]int{}
	for _, name := range names {
		for _, m := range of[name] {
			m.Nth = 0
			seen[m.Key()]++
			m.Nth = seen[m.Key()]
			m.Number = len(p.mutants) + 1
			p.mutants = append(p.mutants, m)
		}
	}
}

// leaveOut removes the mutants of each line with an error.
func leaveOut(of map[string][]*mutant, found []packages.Error) error {
	var errs []error
	left := 0
	for _, e := range found {
		errs = append(errs, e)
		place := strings.Split(e.Pos, ":")
		if len(place) < 2 {
			continue
		}
		line, _ := strconv.Atoi(place[1])
		var kept []*mutant
		for _, m := range of[place[0]] {
			if m.Line == line {
				left++
			} else {
				kept = append(kept, m)
			}
		}
		if kept != nil || left > 0 {
			of[place[0]] = kept
		}
	}
	if left == 0 {
		return fmt.Errorf("the mutated package does not compile: %w", errors.Join(errs...))
	}
	return nil
}
