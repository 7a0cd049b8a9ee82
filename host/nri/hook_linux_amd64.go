// The program of the hook is written where the engine finds it.

package nri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
)

// writeHook writes the program of the hook. It replaces the file, which an engine may be executing.
func (o Options) writeHook(program []byte) error {
	const mode = 0o755
	if err := onNode(o.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, mode); err != nil {
		return err
	}
	w, err := atomicfile.Create(o.Hook())
	if err != nil {
		return err
	}
	defer w.Discard()
	_, err = w.Write(program)
	if err := errors.Join(err, w.Chmod(mode)); err != nil {
		return err
	}
	return w.Commit()
}

// onNode refuses a directory, which may not exist yet, in the filesystem of a container's image, an overlay: no container
// could start with a hook in a pod's own filesystem.
func onNode(dir string) error {
	var root, st unix.Stat_t
	var overlay unix.Statfs_t
	there := dir
	for unix.Stat(there, &st) != nil && there != "/" {
		there = filepath.Dir(there)
	}
	if err := errors.Join(unix.Stat("/", &root), unix.Statfs("/", &overlay)); err != nil {
		return err
	}
	if contained() && overlay.Type == unix.OVERLAYFS_SUPER_MAGIC && root.Dev == st.Dev {
		return hinterr.With(fmt.Errorf("%s: in this container's own filesystem, where the engine finds no hook", dir),
			"mount the node's directory there, under the same path, as deploy/kubernetes/nri.yaml does")
	}
	return nil
}

// contained reports whether this process is in a container: the first process that it sees is itself, or has other
// mounts, as in a pod with the node's processes.
func contained() bool {
	first, err := os.Readlink("/proc/1/ns/mnt")
	own, _ := os.Readlink("/proc/self/ns/mnt")
	return os.Getpid() == 1 || err == nil && first != own
}
