// The program of the hook: a file in a directory that this process and the engine see under the same path.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/hinterr"
)

const programName = "vfix-runtime"

// install makes sure that the program is in its directory. It replaces the file: an engine may be executing the old
// one.
func (h *hooker) install() error {
	if old, err := os.ReadFile(h.program()); err == nil && bytes.Equal(old, h.Hook) {
		return nil
	}
	const mode = 0o755
	if err := os.MkdirAll(h.Dir, mode); err != nil {
		return err
	}
	if err := onNode(h.Dir); err != nil {
		return err
	}
	w, err := os.CreateTemp(h.Dir, ".vfix-")
	if err != nil {
		return err
	}
	defer os.Remove(w.Name())
	_, err = w.Write(h.Hook)
	if err := errors.Join(err, w.Chmod(mode), w.Sync(), w.Close()); err != nil {
		return err
	}
	return os.Rename(w.Name(), h.program())
}

// onNode refuses a directory in the filesystem of a container's image, an overlay: no container could start with a hook
// in a pod's own filesystem.
func onNode(dir string) error {
	var root, st unix.Stat_t
	var overlay unix.Statfs_t
	if err := errors.Join(unix.Stat("/", &root), unix.Stat(dir, &st), unix.Statfs("/", &overlay)); err != nil {
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
