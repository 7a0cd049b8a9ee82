// Whether a directory is the node's: a hook that is in a pod's own file system would keep every container that
// gets it from starting.

package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/mounts"
)

// onNode refuses a directory in the file system of a container's image.
func onNode(dir string) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if contained() && inImage(b, dir) {
		return hinterr.With(fmt.Errorf("%s: in this container's own filesystem, where the engine finds no hook", dir),
			"mount the node's directory there, under the same path, as deploy/kubernetes/nri.yaml does")
	}
	return nil
}

// contained reports whether this process is in a container: the first process that it sees is itself, or has
// other mounts.
func contained() bool {
	if os.Getpid() == 1 {
		return true
	}
	first, err := os.Readlink("/proc/1/ns/mnt")
	own, _ := os.Readlink("/proc/self/ns/mnt")
	return err == nil && first != own
}

// inImage reports whether the mount of a mountinfo file that holds a path is an overlay at /.
func inImage(mountinfo []byte, path string) bool {
	longest, image := "", false
	for _, m := range mounts.Read(mountinfo) {
		at := m.Mountpoint
		if rel, err := filepath.Rel(at, path); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		if len(at) >= len(longest) {
			longest, image = at, at == "/" && m.FSType == "overlay"
		}
	}
	return image
}
