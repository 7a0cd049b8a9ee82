// Whether a container's program calls the page: the program itself, or a library that the loader loads for it.

package diagnose

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path"

	"vfix.dev/vfix/internal/loads"
	"vfix.dev/vfix/internal/packages"
	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// reach reports whether a program calls the page. The zero value means that it is not known.
type reach int

const (
	reachUnknown reach = iota
	reaches
	reachesNot
)

// reachOf examines a program of a root and its libraries; for a script, its interpreter and the interpreter's
// libraries.
func reachOf(root fs.FS, program string) reach {
	if root == nil || program == "" {
		return reachUnknown
	}
	if !path.IsAbs(program) {
		for _, dir := range rootpath.Programs {
			if _, err := fs.Stat(root, path.Join(dir, program)); err == nil {
				program = path.Join(dir, program)
				break
			}
		}
	}
	const maxScripts = 4
	script := false
	for range maxScripts {
		p, err := lookAt(root, program)
		switch {
		case err != nil:
			return reachUnknown
		case p.script != "":
			program, script = p.script, true
			continue
		case !p.elf:
			return reachUnknown
		}
		break
	}
	found, err := loads.Of(root, rootName(program))
	if err != nil && !errors.Is(err, loads.ErrNotDynamic) {
		return reachUnknown
	}
	files, whole := []string{rootName(program)}, !script
	if found != nil {
		files = append(files, found.Found...)
		whole = whole && len(found.Missing) == 0 && len(found.Opens) == 0
	}
	for _, name := range files {
		calls, err := callsIt(root, name)
		if calls {
			return reaches
		}
		whole = whole && err == nil
	}
	if whole {
		return reachesNot
	}
	return reachUnknown
}

// callsIt reports whether a file has live or unknown call sites.
func callsIt(root fs.FS, name string) (bool, error) {
	r, size, done, err := openFile(root, name)
	if err != nil {
		return false, err
	}
	defer done()
	report, err := patch.Scan(r, size)
	if err != nil {
		return false, err
	}
	return report.Count(find.Live)+report.Count(find.Unknown) > 0, nil
}

// rootName returns a path for fs.FS: cleaned, without leading slashes.
func rootName(name string) string {
	return cmp.Or(path.Clean("/" + name)[1:], ".")
}

// openFile opens a file by its name in a crash: absolute, or relative to the root (packages.OpenFile).
func openFile(root fs.FS, name string) (io.ReaderAt, int64, func() error, error) {
	return packages.OpenFile(root, rootName(name))
}
