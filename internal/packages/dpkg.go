// Which Debian package a file is of. dpkg keeps the files of each package in
// var/lib/dpkg/info/NAME[:ARCH].list, one absolute path a line, and the versions in
// var/lib/dpkg/status (dpkg-query(1), deb822(5)).

package packages

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"strings"
)

const (
	dpkgInfo   = "var/lib/dpkg/info"
	dpkgStatus = "var/lib/dpkg/status"
	// maxDatabase is how much of one file of a database is read, in bytes; the largest
	// status of a full Debian has some 10 MiB. maxLine is its longest line.
	maxDatabase = 64 << 20
	maxLine     = 1 << 20
)

// dpkgPackage returns the name and version of the package that a file of root is of.
func dpkgPackage(root fs.FS, file string) (string, error) {
	entries, err := fs.ReadDir(root, dpkgInfo)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	want := map[string]bool{}
	for _, s := range spellings(file) {
		want[s] = true
	}
	for _, e := range entries {
		name, isList := strings.CutSuffix(e.Name(), ".list")
		if !isList || !e.Type().IsRegular() {
			continue
		}
		found := false
		err := eachLine(root, dpkgInfo+"/"+e.Name(), func(line string) bool {
			found = want[line]
			return !found
		})
		if err != nil {
			return "", err
		}
		if found {
			name, _, _ = strings.Cut(name, ":")
			version, err := dpkgVersion(root, name)
			return strings.TrimSpace(name + " " + version), err
		}
	}
	return "", nil
}

// dpkgVersion looks a package up in the status file.
func dpkgVersion(root fs.FS, name string) (string, error) {
	version, here := "", false
	err := eachLine(root, dpkgStatus, func(line string) bool {
		if p, ok := strings.CutPrefix(line, "Package: "); ok {
			here = p == name
		}
		if v, ok := strings.CutPrefix(line, "Version: "); ok && here {
			version = v
		}
		return version == ""
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return version, err
}

// eachLine calls visit for each line of a file until it says false.
func eachLine(root fs.FS, name string, visit func(string) bool) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(io.LimitReader(f, maxDatabase))
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	for s.Scan() {
		if !visit(s.Text()) {
			return nil
		}
	}
	return s.Err()
}
