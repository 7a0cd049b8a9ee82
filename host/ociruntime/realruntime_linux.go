// Which program is the real runtime: the configured one, or runc or crun in PATH, and never vfix-runtime itself.

package ociruntime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// realRuntimes are the runtimes to search for, in this order, if none is configured.
var realRuntimes = []string{"runc", "crun"}

// usualPath is searched if PATH has no runtime: engines start their runtimes with an environment of their own.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// guard is a variable with the ID of the process that has been vfix-runtime: execve keeps the ID, so a process
// that finds its own was led back here by a link or a script.
const guard = "VFIX_RUNTIME_PID"

// findRuntime returns the path of the real runtime. named is a path, a name, or "".
func findRuntime(named string) (string, error) {
	if os.Getenv(guard) == strconv.Itoa(os.Getpid()) {
		return "", fmt.Errorf("runtime %s: leads back to vfix-runtime", named)
	}
	var self unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &self); err != nil {
		return "", fmt.Errorf("/proc/self/exe: %w", err)
	}
	if strings.ContainsRune(named, '/') {
		path, err := filepath.Abs(named)
		if err != nil {
			return "", err
		}
		if err := usable(path, &self); err != nil {
			return "", fmt.Errorf("runtime %s: %w", path, err)
		}
		return path, nil
	}
	names := realRuntimes
	if named != "" {
		names = []string{named}
	}
	var last error
	for _, name := range names {
		for dir := range strings.SplitSeq(os.Getenv("PATH")+":"+usualPath, ":") {
			if !filepath.IsAbs(dir) {
				continue
			}
			path := filepath.Join(dir, name)
			err := usable(path, &self)
			if err == nil {
				return path, nil
			}
			if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
				last = fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if last != nil {
		return "", fmt.Errorf("runtime %s: %w", strings.Join(names, ", "), last)
	}
	return "", fmt.Errorf("runtime %s: not in PATH", strings.Join(names, ", "))
}

var errOurselves = errors.New("is vfix-runtime itself")

// usable returns nil if a program can be executed and is not this program.
func usable(path string, self *unix.Stat_t) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Dev == self.Dev && st.Ino == self.Ino {
		return errOurselves
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("not a regular file")
	}
	return unix.Access(path, unix.X_OK)
}
