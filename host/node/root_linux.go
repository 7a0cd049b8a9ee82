// The root filesystem of a container: whether vfix may write into it, and the layers below it.

package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// root is an open root filesystem that belongs to one container alone. All of its files are opened from its descriptor.
type root struct {
	fd    int
	tree  *os.Root // writes to the root, at names that were opened from fd before
	stat  unix.Statx_t
	mount *mountinfo.Info // that the root is in
	dirs  []directory     // with its files: the layers of its image, and then the container's own
	// covered are the names on which the container has a mount. The kernel removes the mount if such a name gets another
	// file (fs/namespace.c, __detach_mounts).
	covered map[string]bool
}

// directory is one of those that a root consists of.
type directory struct {
	path string
	own  bool // the container's own, whose content changes
}

// beneath is how files below a directory are opened: no symlink is followed, no other mount entered (openat2(2)).
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// statxMask includes the ID of the mount, since Linux 5.8 (statx(2)).
const statxMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID

// openRoot opens the root of the container id, whose process pid waits for the hook; 0 without a hook. The error says why
// it is not the container's own.
func openRoot(path, id string, pid int) (*root, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("root %s: %w", path, err)
	}
	r := &root{fd: fd}
	real, err := os.Readlink(r.path())
	if err = errors.Join(err, unix.Statx(fd, "", unix.AT_EMPTY_PATH, statxMask, &r.stat)); err == nil {
		err = errors.Join(r.check(real, id), r.cover(real, pid))
	}
	if err == nil {
		r.tree, err = os.OpenRoot(r.path())
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("root %s: %w", path, err)
	}
	if len(r.dirs) == 0 {
		r.dirs = []directory{{r.path(), true}}
	}
	return r, nil
}

func (r *root) close() {
	r.tree.Close()
	unix.Close(r.fd)
}

// path is a name of the root in this process.
func (r *root) path() string { return fmt.Sprintf("/proc/self/fd/%d", r.fd) }

const (
	fuseOverlay = "fuse.fuse-overlayfs"
	// nativeSnapshots is in the path of each snapshot of containerd's native snapshotter.
	nativeSnapshots = ".native/snapshots/"
)

// check checks that the root at a path is the container's own, and finds its layers.
func (r *root) check(path, id string) error {
	same, err := r.mounts()
	if err != nil {
		return err
	}
	_, readOnly := options(r.mount.Options + "," + r.mount.VFSOptions)["ro"]
	overlay := r.mount.FSType == "overlay" || r.mount.FSType == fuseOverlay
	_, snapshot, native := strings.Cut(r.mount.Root, nativeSnapshots)
	_, nerr := strconv.ParseUint(snapshot, 10, 64)
	whole, at, alone := path == r.mount.Mountpoint, r.mount.Mountpoint, len(same) == 1
	for _, m := range same { // podman binds a root to a second place if the container has users of its own
		if len(same) == 2 && madeFor(m.Mountpoint, id) {
			at, alone = m.Mountpoint, true
		}
	}
	switch {
	case path == "/":
		return errors.New("it is the root of this machine")
	case readOnly:
		return errors.New("it is read-only on this machine")
	case overlay && !(whole && r.mount.Root == "/"):
		return errors.New("it is a part of an overlay")
	case native && !(whole && nerr == nil && strings.HasSuffix(path, "/"+id+"/rootfs")):
		return errors.New("a snapshot that is not this container's")
	case (overlay || native) && !alone:
		return fmt.Errorf("it is shared: the same files are mounted %d times", len(same))
	case overlay:
		r.dirs = r.layers(at)
	case !native && !madeFor(path, id):
		return fmt.Errorf("a directory on %s that no engine made for this container alone", r.mount.FSType)
	}
	return nil
}

// mounts sets the mount of the root, and returns all mounts of the same files or a part of them.
func (r *root) mounts() (same []*mountinfo.Info, err error) {
	all, err := mountinfo.GetMounts(nil)
	i := slices.IndexFunc(all, func(m *mountinfo.Info) bool { return uint64(m.ID) == r.stat.Mnt_id })
	if err == nil && i < 0 {
		err = errors.New("its mount is not in /proc/self/mountinfo")
	}
	if err != nil {
		return nil, err
	}
	r.mount = all[i]
	within := strings.TrimSuffix(r.mount.Root, "/") + "/"
	for _, m := range all {
		device := m.Major == r.mount.Major && m.Minor == r.mount.Minor
		if device && strings.HasPrefix(m.Root+"/", within) {
			same = append(same, m)
		}
	}
	return same, nil
}

// cover finds the names that the mounts of a process cover; 0 is no process. At a createRuntime hook, the process has the
// container's mounts, below the path of the root on this machine (runtime-spec, config.md).
func (r *root) cover(path string, pid int) error {
	if pid == 0 {
		return nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return err
	}
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	r.covered = map[string]bool{}
	for _, m := range all {
		if name, below := strings.CutPrefix(m.Mountpoint, path+"/"); below {
			r.covered[name] = true
		}
	}
	return err
}

// madeFor reports whether docker or podman has made the directory at a path for the container id, by their own files
// about one storage driver. Those of 'podman run --rm' are in the last one.
func madeFor(path, id string) bool {
	places := regexp.MustCompile(`^(/.+)/(vfs|btrfs|zfs|overlay)(?:/dir|/subvolumes|/graph)?/([^/]+)(?:/merged)?$`)
	m := places.FindStringSubmatch(path)
	if m == nil || id == "" || filepath.Base(id) != id {
		return false
	}
	store, driver, layer := m[1], m[2], m[3]
	got, err := os.ReadFile(filepath.Join(store, "image", driver, "layerdb/mounts", id, "mount-id"))
	if err == nil && string(got) == layer {
		return true
	}
	for _, name := range []string{"containers.json", "volatile-containers.json"} {
		text, err := os.ReadFile(filepath.Join(store, driver+"-containers", name))
		var all []struct{ ID, Layer string }
		if err != nil || json.Unmarshal(text, &all) != nil {
			continue
		}
		for _, c := range all {
			if c.ID == id && c.Layer == layer {
				return true
			}
		}
	}
	return false
}

// layers returns the directories of an overlay that is mounted at a path; nil if they are not known. Names in mountinfo
// may be cut short, relative or descriptors of another process; docker and podman write them to the file "lower" beside
// the mount, but not how many there are. Where files have their data in directories without names (data-only layers),
// the root shows them alone.
func (r *root) layers(at string) (dirs []directory) {
	options := options(r.mount.VFSOptions)
	mounted, upper := options["lowerdir"]+options["lowerdir+"], options["upperdir"]
	lower := mounted
	if _, data := options["datadir+"]; data || strings.Contains(lower, "::") {
		return nil
	}
	dir, home := filepath.Dir(at), filepath.Dir(filepath.Dir(upper))
	if text, err := os.ReadFile(filepath.Join(dir, "lower")); err == nil && filepath.Base(at) == "merged" {
		lower, upper, home = strings.TrimSpace(string(text)), filepath.Join(dir, "diff"), filepath.Dir(dir)
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, upper, 0, statxMask, &st); err != nil {
		return nil
	}
	// An overlay's root shows the times of its upper directory (fs/overlayfs/inode.c, ovl_getattr).
	if r.mount.FSType != fuseOverlay && (st.Mtime != r.stat.Mtime || st.Ctime != r.stat.Ctime) {
		return nil
	}
	for name := range strings.SplitSeq(lower, ":") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(home, name)
		}
		real, err := filepath.EvalSymlinks(name)
		if err != nil {
			return nil
		}
		dirs = append(dirs, directory{real, false})
		// podman's copies of a layer, for containers with users of their own (containers/storage, drivers/overlay).
		copies, _ := filepath.Glob(filepath.Join(filepath.Dir(real), "diff?"))
		for _, copied := range copies {
			dirs = append(dirs, directory{copied, false})
		}
	}
	if mounted != "" && len(dirs) != strings.Count(mounted, ":")+1 {
		return nil
	}
	return append(dirs, directory{upper, true})
}

// inUse returns an error if a process other than except has the root as its own.
func (r *root) inUse(except int) error {
	processes, err := os.ReadDir("/proc")
	own := unix.Mkdev(r.stat.Dev_major, r.stat.Dev_minor)
	for _, p := range processes {
		var st unix.Stat_t
		if pid, err := strconv.Atoi(p.Name()); err != nil || pid == except {
			continue
		}
		if unix.Stat("/proc/"+p.Name()+"/root", &st) == nil && st.Dev == own && st.Ino == r.stat.Ino {
			return fmt.Errorf("a process has it as its root: %s: nothing is changed", p.Name())
		}
	}
	return err
}

// openAt opens a file below a directory, and never waits for a FIFO or device.
func openAt(dir int, name string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY), Resolve: beneath}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// errNotRegular: a file is a device, a FIFO, a socket or a directory.
var errNotRegular = errors.New("not a regular file")

// openFile opens a regular file of the root, and returns what it is. Nothing else is opened: a container can make devices,
// and opening one may change this machine, as a watchdog does.
func (r *root) openFile(name string) (f *os.File, st unix.Stat_t, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: beneath}
	fd, err := unix.Openat2(r.fd, name, &how)
	if err != nil {
		return nil, st, err
	}
	defer unix.Close(fd)
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errNotRegular
	}
	if err != nil {
		return nil, st, err
	}
	f, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDONLY|unix.O_NONBLOCK, 0) // a lease would make it wait
	return f, st, err
}

// options returns the values of a list of mount options; those of one name are separated by colons.
func options(list string) map[string]string {
	all := map[string]string{}
	for o := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(o, "=")
		all[name] = strings.TrimPrefix(all[name]+":"+value, ":")
	}
	return all
}
