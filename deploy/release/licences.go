package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// licenceName is how files are called that a copy of a module has to carry.
var licenceName = regexp.MustCompile(`(?i)^((un)?licen[cs]es?|copying|notice|patents|copyright)([.-].*)?$`)

// muslLicences are where distributions keep musl's: parts of it are linked into vfix-trace and
// vfix-measure, which every vfix carries.
var muslLicences = []string{"/usr/share/doc/musl/copyright", "/usr/share/licenses/musl/COPYRIGHT", "/usr/share/doc/musl-libc-static/COPYRIGHT"}

// writeLicences copies the licences of what is linked into a program to DIR/MODULE/FILE, the Go
// standard library's to DIR/go, musl's to DIR/musl. A module without one is an error.
func writeLicences(program, dir string) error {
	info, modules, err := linked(program)
	if err != nil {
		return err
	}
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.Path+"@"+m.Version)
	}
	out, err := goCommand(args...)
	if err != nil {
		return err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("go mod download: %w", err)
		}
		if err := copyLicences(m.Dir, filepath.Join(dir, filepath.FromSlash(m.Path))); err != nil {
			return fmt.Errorf("module %s: %w", m.Path, err)
		}
	}
	root, err := goCommand("env", "GOROOT")
	if err != nil {
		return err
	}
	if err := copyFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"), filepath.Join(dir, "go", "LICENSE")); err != nil {
		return fmt.Errorf("%s: %w", info.GoVersion, err)
	}
	for _, path := range muslLicences {
		if err := copyFile(path, filepath.Join(dir, "musl", "COPYRIGHT")); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("musl: no licence in any of %s", strings.Join(muslLicences, ", "))
}

// copyLicences copies the licence files of a module, those of copied packages in it too.
func copyLicences(from, to string) error {
	found := false
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case !d.Type().IsRegular() || !licenceName.MatchString(d.Name()) || strings.HasSuffix(d.Name(), ".go"):
			return nil
		}
		found = true
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return copyFile(path, filepath.Join(to, rel))
	})
	if err == nil && !found {
		err = errors.New("no licence file")
	}
	return err
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
