// Package packages finds the package of a Linux distribution that a file belongs to, by the databases
// that dpkg and rpm keep in a root filesystem.
//
// A database is untrusted: the amount that it makes a reader read is bounded by its own size.
package packages

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Owner returns the name and version of the package that a file of root belongs to, "" if no
// database knows it.
func Owner(root fs.FS, file string) (string, error) {
	name, err := dpkgPackage(root, file)
	if name != "" || err != nil {
		return name, err
	}
	owners, err := RPMOwners(root, []string{file})
	return owners[file], err
}

// OpenFile opens a regular file of a root filesystem for reading at any offset, and returns its
// size in bytes and what closes it. It errors where root cannot read at an offset.
func OpenFile(root fs.FS, name string) (io.ReaderAt, int64, func() error, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, 0, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", name)
	}
	r, ok := f.(io.ReaderAt)
	if err == nil && !ok {
		err = fmt.Errorf("%s: cannot be read at an offset", name)
	}
	if err != nil {
		f.Close()
		return nil, 0, nil, err
	}
	return r, fi.Size(), f.Close, nil
}

// spellings are the paths that a database may have a file under: before or after /lib and
// the like became symlinks to /usr/lib.
func spellings(file string) []string {
	file = path.Clean("/" + file)
	all := []string{file}
	for _, dir := range []string{"/lib", "/lib64", "/bin", "/sbin"} {
		if strings.HasPrefix(file, dir+"/") {
			all = append(all, "/usr"+file)
		}
		if strings.HasPrefix(file, "/usr"+dir+"/") {
			all = append(all, strings.TrimPrefix(file, "/usr"))
		}
	}
	return all
}
