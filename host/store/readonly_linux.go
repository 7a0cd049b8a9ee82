// Copies that a container cannot write to, whatever its capabilities are. A process with CAP_SYS_ADMIN can remove
// the read-only flag of a mount, but cannot make a read-only file system writable. An overlay without an upper
// layer is one (fs/overlayfs/super.c, ovl_reconfigure). It shows the existing files, so nothing is copied, and
// containers share memory.

package store

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/thread"
)

// ReadOnly returns detached mounts of copies, in the order of their keys; the caller closes them.
func (s *Store) ReadOnly(keys []string) (fds []int, err error) {
	done := make(chan error)
	thread.Go(func() {
		var err error
		fds, err = s.readOnly(keys)
		done <- err
	})
	return fds, <-done
}

// readOnly is ReadOnly in a thread of its own. A mount can only be cloned in its own namespace, so the thread gets
// a new one, which is not visible elsewhere.
func (s *Store) readOnly(keys []string) (fds []int, err error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("private mounts: %w", err)
	}
	// Without an upper layer, an overlay needs two lower ones.
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`)
	files, empty := filepath.Join(s.Dir, filesDir), filepath.Join(s.Dir, emptyDir)
	if err := unix.Mount("vfix", empty, "overlay", unix.MS_RDONLY, "lowerdir="+escape.Replace(files)+":"+escape.Replace(empty)); err != nil {
		return nil, fmt.Errorf("overlay of %s: %w", files, err)
	}
	for _, key := range keys {
		fd, err := unix.OpenTree(unix.AT_FDCWD, filepath.Join(empty, key), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}
