// Paths that lead through a process to another root.

package rootpath

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"vfix.dev/vfix/internal/hinterr"
)

// processLink is a path that leads through a link of a process (proc(5)) that only the kernel can follow: the text of the link
// is a path in the root of that process, and perhaps of another file here.
var processLink = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(/proc/(?:\d+|self|thread-self)(?:/task/\d+)?/)(root|cwd|exe|fd/\d+|map_files/[^/]+)(/.*)?$`)
})

// Real is the path without symlinks of what path names, as filepath.EvalSymlinks, and root "". If path leads
// through a process it is a path below the root of that process, /proc/PID/root, which is root then: links below it mean
// places in it, and what is loaded from there lies in it.
func Real(path string) (real, root string, err error) {
	m := processLink().FindStringSubmatch(filepath.Clean(path))
	if m == nil {
		if real, err = filepath.EvalSymlinks(path); err != nil {
			return "", "", err
		}
		return real, "", same(path, real)
	}
	root = m[1] + "root"
	r, err := os.OpenRoot(root)
	if err != nil {
		return "", "", err
	}
	defer r.Close()
	name := m[3]
	if m[2] != "root" {
		text, err := os.Readlink(m[1] + m[2])
		if err != nil {
			return "", "", err
		}
		top, _ := os.Readlink(root) // "/", or its place in the root of this process
		name = strings.TrimPrefix(text, strings.TrimSuffix(top, "/"))
		if err := same(m[1]+m[2], filepath.Join(root, name)); err != nil {
			return "", "", err
		}
		name += m[3]
	}
	if name, err = In(r, strings.TrimLeft(name, "/")); err != nil {
		return "", "", err
	}
	real = filepath.Join(root, name)
	_, err = os.Lstat(real)
	return real, root, err
}

// same errs unless two paths name the same file.
func same(path, real string) error {
	a, err := os.Stat(path)
	if err != nil {
		return err
	}
	if b, err := os.Stat(real); err != nil || !os.SameFile(a, b) {
		err := hinterr.Errorf(fs.ErrNotExist, "%s leads to a file that was removed or replaced, or is in another root than %s", path, real)
		return hinterr.With(err, "name it below /proc/PID/root of its process, or copy its content: cat %s | vfix scan -", path)
	}
	return nil
}
