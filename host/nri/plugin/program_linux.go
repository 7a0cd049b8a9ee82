// The program of the hook, and its configuration: files in a directory that this process and the engine see
// under the same path.

package plugin

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/mounts"
)

const (
	programName = "vfix-runtime"
	configName  = "runtime.json"
)

// put replaces a file atomically: an engine may be executing the old one.
func put(path string, data []byte, mode fs.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return policy.Put(path, data, mode)
}

func install(dir string, program []byte) error {
	const readable, executable = 0o755, 0o755
	if err := os.MkdirAll(dir, readable); err != nil {
		return err
	}
	return put(filepath.Join(dir, programName), program, executable)
}

// handOn passes the configuration in force to the hook, so that it decides as this process does.
func handOn(c policy.Config, dir string) error {
	const readable = 0o644
	text, err := c.Bytes()
	if err != nil {
		return err
	}
	return put(filepath.Join(dir, configName), text, readable)
}

// onNode refuses a directory in the file system of a container's image: no container could start with a hook
// in a pod's own file system.
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
