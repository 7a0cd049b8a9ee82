// The loader and libraries of a program that was named alone, which run with it, are examined with it.

package images

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/loads"
	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/rewriter/elf"
)

// systemDirs are those of programs that belong to this machine: their libraries are also here.
var systemDirs = []string{"/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/usr/", "/opt/"}

// loading examines what programs load, and adds it to the findings.
type loading struct {
	s    *contents.Session
	root string // the root that is searched; "" for the root filesystem that a program lies in
	dir  string // a directory that was examined, "" for none: what is loaded from it is among the findings
	f    *contents.Findings
	seen map[string]bool // libraries that were examined
}

// scanLoads examines what a program of f, a file at a path, loads; or what the programs of a directory load from
// elsewhere, such as those of an environment of conda, whose libc is the machine's. A directory that has the loader of
// its programs is a root filesystem, and whole.
func scanLoads(ctx context.Context, s *contents.Session, path string, isDir bool, root string,
	f *contents.Findings) error {
	real, own, err := rootpath.Real(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if root == "" {
		root = own
	}
	if err == nil && root != "" {
		root, err = filepath.Abs(root)
	}
	if err != nil || isDir && (real == "/" || real == own) {
		return err
	}
	l := &loading{s: s, root: root, f: f, seen: map[string]bool{}}
	if !isDir {
		interp, library, err := interpOf(real)
		if f.Library = library; err != nil || interp == "" {
			return err
		}
		return l.program(ctx, real, interp)
	}
	l.dir = real
	return filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // an unreadable file has been reported
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		interp, library, err := interpOf(path)
		if err != nil || library || interp == "" {
			return nil
		}
		if _, err := placeIn(real, interp); err == nil {
			return filepath.SkipAll
		}
		return l.program(ctx, path, interp)
	})
}

// program examines what one program loads.
func (l *loading) program(ctx context.Context, path, interp string) error {
	root, find := l.root, loads.Of
	if root == "" {
		if root = ownRoot(path, interp); root == "" {
			root, find = "/", loads.Beside
		}
	}
	dir, err := rootpath.OpenDir(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	name, err := filepath.Rel(root, path)
	if err != nil || strings.HasPrefix(name, "..") { // as if it lay at the top of the root
		name = filepath.Base(path)
	}
	found, err := find(&with{dir, name, path}, name)
	if errors.Is(err, loads.ErrNotDynamic) {
		return nil
	}
	if err != nil {
		return err
	}
	if l.f.Loads == nil {
		l.f.Loads = &contents.Loads{Root: root}
	}
	for _, name := range found.Missing {
		if !slices.Contains(l.f.Loads.Missing, name) {
			l.f.Loads.Missing = append(l.f.Loads.Missing, name)
		}
	}
	if l.dir == "" {
		l.f.Loads.Opens = found.Opens
	}
	for _, lib := range found.Found {
		full := filepath.Join(root, filepath.FromSlash(lib))
		if l.seen[lib] || l.dir != "" && strings.HasPrefix(full, l.dir+"/") {
			continue
		}
		l.seen[lib] = true
		if err := l.examine(ctx, root, lib); err != nil {
			return err
		}
	}
	return nil
}

// placeIn is the path of a file in a root filesystem: a symlink means a place in there.
func placeIn(root, name string) (string, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return "", err
	}
	defer r.Close()
	at, err := rootpath.In(r, name)
	if err == nil {
		_, err = r.Stat(at)
	}
	return filepath.Join(root, filepath.FromSlash(at)), err
}

// with is a root with one file more.
type with struct {
	fs.FS
	name, path string
}

func (w *with) Open(name string) (fs.File, error) {
	if name == w.name {
		return os.Open(w.path)
	}
	return w.FS.Open(name)
}

// examine adds the findings in one library.
func (l *loading) examine(ctx context.Context, root, lib string) error {
	path, err := placeIn(root, lib)
	if err != nil {
		return err
	}
	got, err := l.s.Path(ctx, path)
	if err != nil {
		return err
	}
	l.f.Loads.Examined = append(l.f.Loads.Examined, path)
	l.f.Add(got.Findings)
	return nil
}

// interpOf is the loader that a program names; "" for what has none, and for libraries, which some loader may name or
// which can be executed.
func interpOf(path string) (interp string, library bool, err error) {
	r, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer r.Close()
	fi, err := r.Stat()
	if err != nil {
		return "", false, err
	}
	file, err := elf.Parse(r, fi.Size())
	if err != nil {
		return "", false, nil // its type has been reported
	}
	if interp = file.Interp(); interp == "" || file.Soname() != "" {
		return "", file.Type == elf.TypeDyn && !file.Static(), nil
	}
	return interp, false, nil
}

// ownRoot is the root filesystem that a program lies in: the nearest directory above it that has its loader, or this
// machine's for what is installed on it; "" if nothing says with which libraries it runs.
func ownRoot(real, interp string) string {
	for dir := filepath.Dir(real); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "usr" { // a merged /usr has the loader of the directory above
			continue
		}
		if _, err := placeIn(dir, interp); err == nil {
			return dir
		}
	}
	for _, dir := range systemDirs {
		if strings.HasPrefix(real, dir) {
			return "/"
		}
	}
	return ""
}
