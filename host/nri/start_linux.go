// Writing the program of the hook, and executing the plugin's program; vfix contains both.

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

// Start writes the program of the hook where the engine finds it, and executes the plugin in place of this process. It
// returns if that is not possible.
func Start(o Options, plugin, hook []byte) error {
	if err := o.writeHook(hook); err != nil {
		return err
	}
	self, err := unix.MemfdCreate("vfix-nri", unix.MFD_CLOEXEC|unix.MFD_EXEC) // closed on exec: the kernel has opened it by then
	if errors.Is(err, unix.EINVAL) {                                          // Linux before 6.3 does not know MFD_EXEC
		self, err = unix.MemfdCreate("vfix-nri", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	if _, err := os.NewFile(uintptr(self), "vfix-nri").Write(plugin); err != nil {
		return err
	}
	args, err := o.arguments()
	if err != nil {
		return err
	}
	err = unix.Exec(fmt.Sprintf("/proc/self/fd/%d", self), args, os.Environ())
	return fmt.Errorf("vfix-nri: %w", err)
}

// writeHook writes the program of the hook. It replaces the file: an engine may be executing the old one.
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

// onNode refuses a directory, which may not exist yet, in the filesystem of a container's image, an overlay: no container could start with a hook
// in a pod's own filesystem.
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
// mounts.
func contained() bool {
	if os.Getpid() == 1 {
		return true
	}
	first, err := os.Readlink("/proc/1/ns/mnt")
	own, _ := os.Readlink("/proc/self/ns/mnt")
	return err == nil && first != own
}
