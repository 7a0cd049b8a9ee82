package diagnose

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"vfix.dev/vfix/rpmdb"
)

// The files of the system that the program ran in. A root is an fs.FS whose files can be
// read at any offset, and that follows symlinks inside itself.

// maxSymlinks is how many symlinks a name may pass through, as in Linux (MAXSYMLINKS).
const maxSymlinks = 40

// Folder is a root filesystem in a folder. No symlink in it leads out of it.
type Folder struct{ root *os.Root }

// OpenFolder opens the root filesystem in a folder. The caller must Close it.
func OpenFolder(name string) (*Folder, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Close gives the folder back.
func (f *Folder) Close() error { return f.root.Close() }

// Open opens a regular file or a folder by its path from the root, without a leading slash.
func (f *Folder) Open(name string) (fs.File, error) {
	real, err := f.resolve(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	fi, err := f.root.Lstat(real)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() && !fi.IsDir() { // opening a FIFO would wait for its writer
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return f.root.Open(real)
}

// resolve follows the symlinks in a name as a process whose root this is would.
func (f *Folder) resolve(name string) (string, error) {
	todo := strings.Split(name, "/")
	var at []string
	links := 0
	for len(todo) > 0 {
		c := todo[0]
		todo = todo[1:]
		switch c {
		case "", ".":
			continue
		case "..":
			at = at[:max(0, len(at)-1)]
			continue
		}
		full := path.Join(path.Join(at...), c)
		fi, err := f.root.Lstat(full)
		if err != nil {
			return "", err
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			at = append(at, c)
			continue
		}
		if links++; links > maxSymlinks {
			return "", errors.New("too many levels of symbolic links")
		}
		target, err := f.root.Readlink(full)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(target, "/") {
			at = nil
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	if len(at) == 0 {
		return ".", nil
	}
	return path.Join(at...), nil
}

// rootName is the path of a file for fs.FS: without leading slashes, cleaned.
func rootName(name string) string {
	name = path.Clean("/" + name)[1:]
	if name == "" {
		return "."
	}
	return name
}

// openFile is rpmdb.OpenFile for a name as a crash has it: absolute, or relative to the root.
func openFile(root fs.FS, name string) (io.ReaderAt, int64, func() error, error) {
	return rpmdb.OpenFile(root, rootName(name))
}
