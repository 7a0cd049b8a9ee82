// The files of the system that the program ran in. A root is an fs.FS whose files can be
// read at any offset, and that follows symlinks inside itself.

package diagnose

import (
	"io"
	"io/fs"
	"path"

	"vfix.dev/vfix/internal/packages"
)

// rootName is the path of a file for fs.FS: without leading slashes, cleaned.
func rootName(name string) string {
	name = path.Clean("/" + name)[1:]
	if name == "" {
		return "."
	}
	return name
}

// openFile is packages.OpenFile for a name in a crash: absolute, or relative to the root.
func openFile(root fs.FS, name string) (io.ReaderAt, int64, func() error, error) {
	return packages.OpenFile(root, rootName(name))
}
