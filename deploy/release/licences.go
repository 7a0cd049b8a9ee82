package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// licenceName matches the names of files that a copy of a module must include.
var licenceName = regexp.MustCompile(`(?i)^((un)?licen[cs]es?|copying|notice|patents|copyright)([.-].*)?$`)

// muslLicences are where distributions keep musl's: parts of it are linked into vfix-trace and
// vfix-measure, which every vfix carries.
var muslLicences = []string{"/usr/share/doc/musl/copyright", "/usr/share/licenses/musl/COPYRIGHT", "/usr/share/doc/musl-libc-static/COPYRIGHT"}

// allowed are the licenses that parts of vfix may have, by their SPDX identifiers: permissive ones,
// and MPL-2.0, whose terms cover its own files only.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "FTL", "ISC", "MIT", "MPL-2.0", "Unlicense"}

// chosen are modules that offer several licenses: the file with the one that vfix uses them under.
var chosen = map[string]string{"github.com/golang/freetype": "licenses/ftl.txt"}

// part is something that is linked into a program: a module, the standard library or musl.
type part struct {
	name, version string
	files         map[string]string // the files with its license: name in its directory, path here
}

func (p part) fileNames(separator string) string {
	return strings.Join(slices.Sorted(maps.Keys(p.files)), separator)
}

// parts returns what is linked into programs. A part without a license file is an error.
func parts(programs ...string) ([]part, error) {
	info, modules, err := linked(programs...)
	if err != nil {
		return nil, err
	}
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.Path+"@"+m.Version)
	}
	out, err := goCommand(args...)
	if err != nil {
		return nil, err
	}
	var all []part
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Version, Dir string }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go mod download: %w", err)
		}
		files, err := licenceFiles(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", m.Path, err)
		}
		if name := chosen[m.Path]; name != "" {
			files = map[string]string{name: filepath.Join(m.Dir, name)}
		}
		all = append(all, part{m.Path, m.Version, files})
	}
	root, err := goCommand("env", "GOROOT")
	if err != nil {
		return nil, err
	}
	all = append(all, part{"go", info.GoVersion, map[string]string{"LICENSE": filepath.Join(strings.TrimSpace(string(root)), "LICENSE")}})
	for _, path := range muslLicences {
		if _, err := os.Stat(path); err == nil {
			return append(all, part{"musl", os.Getenv("MUSL_VERSION"), map[string]string{"COPYRIGHT": path}}), nil
		}
	}
	return nil, fmt.Errorf("musl: no license in any of %s", strings.Join(muslLicences, ", "))
}

// writeLicences copies the licenses of what is linked into a program to DIR/MODULE/FILE, the Go
// standard library's to DIR/go, musl's to DIR/musl.
func writeLicences(program, dir string) error {
	all, err := parts(program)
	if err != nil {
		return err
	}
	for _, p := range all {
		for name, path := range p.files {
			text, err := os.ReadFile(path)
			to := filepath.Join(dir, p.name, name)
			if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755)); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if err := os.WriteFile(to, text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeLicenceList writes a table (RFC 4180) of what is linked into programs: name, version, the
// SPDX identifiers of its licenses, and the files with their texts. A license that is not allowed,
// or that is not recognized, is an error.
func writeLicenceList(w io.Writer, programs []string) error {
	all, err := parts(programs...)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b part) int { return strings.Compare(a.name+"@"+a.version, b.name+"@"+b.version) })
	rows := [][]string{{"name", "version", "license", "files"}}
	for _, p := range all {
		ids, err := p.licences()
		if err != nil {
			return err
		}
		rows = append(rows, []string{p.name, p.version, strings.Join(ids, " AND "), p.fileNames(" ")})
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// licences are the SPDX identifiers of the licenses in the part's files.
func (p part) licences() ([]string, error) {
	found := map[string]bool{}
	for name, path := range p.files {
		if strings.HasSuffix(name, ".docs") { // of documentation, which is not linked: go-digest's
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		for _, m := range licensecheck.Scan(text).Match {
			const grant = "GooglePatentsFile" // of patents, in addition to the license of golang.org/x
			if !m.IsURL && m.ID != grant {
				found[m.ID] = true
			}
		}
	}
	ids := slices.Sorted(maps.Keys(found))
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s %s: no known license in %s", p.name, p.version, p.fileNames(", "))
	}
	for _, id := range ids {
		if !slices.Contains(allowed, id) {
			return nil, fmt.Errorf("%s %s: license %s is not one of %s", p.name, p.version, id, strings.Join(allowed, ", "))
		}
	}
	return ids, nil
}

// licenceFiles are the license files of a module, also those of copied packages in it.
func licenceFiles(from string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case !d.Type().IsRegular() || !licenceName.MatchString(d.Name()) || strings.HasSuffix(d.Name(), ".go"):
			return nil
		}
		rel, err := filepath.Rel(from, path)
		files[rel] = path
		return err
	})
	if err == nil && len(files) == 0 {
		err = errors.New("no license file")
	}
	return files, err
}
