//go:build linux || darwin

// Reads the extended attributes of open files (xattr(7)).

package filecopy

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// ListXattrs returns the names of a file's extended attributes. The error is ENOTSUP where the file
// system has none.
func ListXattrs(fd int) ([]string, error) {
	b, err := sized(func(b []byte) (int, error) { return unix.Flistxattr(fd, b) })
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), nil
}

// GetXattr returns the value of one.
func GetXattr(fd int, name string) ([]byte, error) {
	return sized(func(b []byte) (int, error) { return unix.Fgetxattr(fd, name, b) })
}

// sized calls get until its result fits: a first call returns the size, and it may grow
// before the second.
func sized(get func([]byte) (int, error)) ([]byte, error) {
	for {
		n, err := get(nil)
		if n <= 0 || err != nil {
			return nil, err
		}
		b := make([]byte, n)
		n, err = get(b)
		if errors.Is(err, unix.ERANGE) {
			continue
		}
		return b[:max(n, 0)], err
	}
}
