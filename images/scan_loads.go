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

// scanLoads examines what a program of f, a file at a path, loads; or what the programs of a directory load from
// elsewhere, such as those of an environment of conda, whose libc is the machine's. All of it is looked for in one root
// filesystem: the one that is given, or that a program lies in. A directory that has the loader of its programs is
// a root filesystem, and whole; so is one in it.
func scanLoads(ctx context.Context, s *contents.Session, path, root string, f *contents.Findings) error {
	fi, err := os.Stat(path)
	if tarball := f.Tree != nil; err != nil || tarball || len(f.Programs) == 0 {
		return err
	}
	real, own, err := rootpath.Real(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if root = cmp.Or(root, own); err == nil && root != "" {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return err
	}
	dir, all := real, f.Programs
	if !fi.IsDir() {
		dir, all = filepath.Dir(real), []contents.Program{{Path: filepath.Base(real), Interp: all[0].Interp}}
	}
	var programs []contents.Program
	for _, p := range all {
		lies := ownRoot(filepath.Join(dir, filepath.FromSlash(p.Path)), p.Interp)
		if lies == real || real == "/" {
			return nil
		}
		if !strings.HasPrefix(lies, real+"/") {
			programs = append(programs, p)
			root = cmp.Or(root, lies)
		}
	}
	alone := root == ""
	root = cmp.Or(root, "/")
	libraries, err := findLoads(dir, programs, root, alone, f)
	if err != nil {
		return err
	}
	for _, name := range libraries {
		at, err := placeIn(root, name)
		if err != nil {
			return err
		}
		if strings.HasPrefix(at, real+"/") { // it is in the directory that was examined
			continue
		}
		got, err := s.Scan(ctx, &source.Source{Path: at})
		if err != nil {
			return err
		}
		f.Loads.Examined = append(f.Loads.Examined, at)
		f.Add(got)
	}
	return nil
}

// findLoads returns the paths in a root of all that programs in a directory load, and notes what is missing.
func findLoads(dir string, programs []contents.Program, root string, alone bool, f *contents.Findings) (all []string, err error) {
	files, err := rootpath.OpenDir(root)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	system := loads.In(files)
	for _, p := range programs {
		path := filepath.Join(dir, filepath.FromSlash(p.Path))
		program, size, err := blob.OpenRegular(path)
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || strings.HasPrefix(name, "..") { // as if it lay at the top of the root
			name = filepath.Base(path)
		}
		found := system.Of(name, program, size, alone)
		program.Close()
		if found == nil {
			continue
		}
		if f.Loads == nil {
			f.Loads = &contents.Loads{Root: root}
		}
		f.Loads.Missing = appendNew(f.Loads.Missing, found.Missing)
		all = appendNew(all, found.Found)
	}
	return all, nil
}

// appendNew appends what a list does not have.
func appendNew(all, more []string) []string {
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
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
