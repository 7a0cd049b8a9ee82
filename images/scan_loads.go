// The loader and libraries of programs that were named without them are examined with the programs.

package images

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/loads"
	"vfix.dev/vfix/internal/rootpath"
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
	// roots are the root filesystems that were searched.
	roots map[string]*searched
}

// searched is a root filesystem that was searched.
type searched struct {
	*rootpath.Dir
	*loads.Root
}

// scanLoads examines what a program of f, a file at a path, loads; or what the programs of a directory load from
// elsewhere, such as those of an environment of conda, whose libc is the machine's. A directory that has the loader of
// its programs is a root filesystem, and whole.
func scanLoads(ctx context.Context, s *contents.Session, path, root string, f *contents.Findings) error {
	fi, err := os.Stat(path)
	if tarball := f.Loads != nil; err != nil || tarball || len(f.Programs) == 0 {
		return err
	}
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
	if err != nil || fi.IsDir() && (real == "/" || real == own) {
		return err
	}
	l := &loading{s: s, root: root, f: f, seen: map[string]bool{}, roots: map[string]*searched{}}
	defer func() {
		for _, r := range l.roots {
			r.Close()
		}
	}()
	if !fi.IsDir() {
		return l.program(ctx, real, f.Programs[0].Interp)
	}
	l.dir = real
	for _, p := range f.Programs {
		if _, err := placeIn(real, p.Interp); err == nil {
			return nil
		}
	}
	for _, p := range slices.Clone(f.Programs) {
		if err := l.program(ctx, filepath.Join(real, filepath.FromSlash(p.Path)), p.Interp); err != nil {
			return err
		}
	}
	return nil
}

// program examines what one program loads.
func (l *loading) program(ctx context.Context, path, interp string) error {
	f, size, err := blob.OpenRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	root := l.root
	if root == "" {
		root = ownRoot(path, interp)
	}
	alone := root == ""
	root = cmp.Or(root, "/")
	dir := l.roots[root]
	if dir == nil {
		files, err := rootpath.OpenDir(root)
		if err != nil {
			return err
		}
		dir = &searched{files, loads.In(files)}
		l.roots[root] = dir
	}
	name, err := filepath.Rel(root, path)
	if err != nil || strings.HasPrefix(name, "..") { // as if it lay at the top of the root
		name = filepath.Base(path)
	}
	found := dir.Of(name, f, size, alone)
	if found == nil {
		return nil
	}
	if l.f.Loads == nil {
		l.f.Loads = &contents.Loads{Root: root}
	}
	for _, name := range found.Missing {
		if !slices.Contains(l.f.Loads.Missing, name) {
			l.f.Loads.Missing = append(l.f.Loads.Missing, name)
		}
	}
	for _, lib := range found.Found {
		full := filepath.Join(root, filepath.FromSlash(lib))
		if l.seen[full] {
			continue
		}
		l.seen[full] = true
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

// examine adds the findings in one library, unless it lies in the directory that was examined.
func (l *loading) examine(ctx context.Context, root, lib string) error {
	path, err := placeIn(root, lib)
	if err != nil || l.dir != "" && strings.HasPrefix(path, l.dir+"/") {
		return err
	}
	got, err := l.s.Scan(ctx, &source.Source{Path: path})
	if err != nil {
		return err
	}
	l.f.Loads.Examined = append(l.f.Loads.Examined, path)
	l.f.Add(got)
	return nil
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
