// The control group of the confined process.

package examiner

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupRoot is where systemd, and everybody else, mounts version 2 (cgroups(7)).
const cgroupRoot = "/sys/fs/cgroup"

// PodCgroup is the folder of the control group that a container's own is made in, from
// linux.cgroupsPath of its config.json; "" where there is none yet, or it is not one pod's. The container's own
// is not there before the real runtime has made it, but the limits of a pod hold for all in it.
func PodCgroup(cgroupsPath string) string { return podCgroup(cgroupRoot, cgroupsPath) }

func podCgroup(root, cgroupsPath string) string {
	var st unix.Statfs_t
	if unix.Statfs(root, &st) != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		return ""
	}
	at := parentOf(cgroupsPath)
	if strings.Count(at, "/") < 2 { // /system.slice, /docker: all containers', and services'
		return ""
	}
	dir := filepath.Join(root, at)
	if fi, err := os.Lstat(dir); err != nil || !fi.IsDir() {
		return ""
	}
	return dir
}

// parentOf is the group above a container's, "" where the path does not say which. A path is
// /kubepods/burstable/podUID/ID, or as systemd has it kubepods-burstable-podUID.slice:prefix:ID
// (runc, docs/systemd.md).
func parentOf(cgroupsPath string) string {
	if strings.Contains(cgroupsPath, "..") {
		return ""
	}
	if slice, _, ok := strings.Cut(cgroupsPath, ":"); ok {
		name, ok := strings.CutSuffix(slice, ".slice")
		if !ok || strings.ContainsRune(name, '/') || name == "" {
			return ""
		}
		at, whole := "", ""
		for part := range strings.SplitSeq(name, "-") {
			whole = strings.TrimPrefix(whole+"-"+part, "-")
			at += "/" + whole + ".slice"
		}
		return at
	}
	if !strings.HasPrefix(cgroupsPath, "/") {
		return ""
	}
	return filepath.Dir(filepath.Clean(cgroupsPath))
}

// group is a control group for one process: one with groups below it can have no processes itself.
type group struct {
	path string
	fd   int
}

func newGroup(above string) *group {
	if above == "" {
		return nil
	}
	g := &group{path: filepath.Join(above, "vfix-"+rand.Text())}
	const mode = 0o755
	if os.Mkdir(g.path, mode) != nil {
		return nil
	}
	var err error
	if g.fd, err = unix.Open(g.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		os.Remove(g.path)
		return nil
	}
	return g
}

// remove removes the group, whose process has ended a moment ago.
func (g *group) remove() {
	unix.Close(g.fd)
	const tries, pause = 50, time.Millisecond
	for n := 0; n < tries && errors.Is(os.Remove(g.path), unix.EBUSY); n++ {
		time.Sleep(pause)
	}
}
