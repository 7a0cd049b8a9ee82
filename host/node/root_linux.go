// The root filesystem of a container: whether vfix may write into it, and the layers below it.

package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// root is an open root filesystem that belongs to one container alone. All of its files are opened from its descriptor.
type root struct {
	fd    int
	stat  unix.Statx_t
	mount *mountinfo.Info // that the root is in
	// Directories of an overlay, by their paths: own are the container's (the upper one first), lower are those below.
	// Both are empty if they are not known.
	own, lower []string
	dirs       map[string]directory // that are open, by their paths
}

// beneath is how files below a directory are opened: no symlink is followed, no other mount entered (openat2(2)).
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

const statxMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// openRoot opens the root of the container id. The error says why it is not the container's own.
func openRoot(path, id string) (*root, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("root %s: %w", path, err)
	}
	r := &root{fd: fd, dirs: map[string]directory{}}
	if err := r.check(id); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("root %s: %w", path, err)
	}
	return r, nil
}

func (r *root) close() { unix.Close(r.fd) }

// check checks that the root is the container's own.
func (r *root) check(id string) error {
	if err := unix.Statx(r.fd, "", unix.AT_EMPTY_PATH, statxMask, &r.stat); err != nil {
		return err
	}
	if fd, err := openAt(r.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return fmt.Errorf("openat2: %w", err) // Linux before 5.6
	} else {
		unix.Close(fd)
	}
	var machine unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, "/", 0, statxMask, &machine); err != nil {
		return err
	}
	own, err := mountOf(r.fd, ".")
	above, aerr := mountOf(r.fd, "..")
	root, rerr := mountOf(unix.AT_FDCWD, "/")
	if err := errors.Join(err, aerr, rerr); err != nil {
		return err
	}
	if root == own && machine.Ino == r.stat.Ino {
		return errors.New("it is the root of this machine")
	}
	mounts, err := r.mounts(own)
	if err != nil {
		return err
	}
	mountpoint := above != own
	switch {
	case r.mount == nil:
		return errors.New("its mount is not in /proc/self/mountinfo")
	case hasOption(r.mount.Options, "ro"), hasOption(r.mount.VFSOptions, "ro"):
		return errors.New("it is read-only on this machine")
	case r.mount.FSType == "overlay" || r.mount.FSType == fuseOverlay:
		return r.overlay(mounts, mountpoint, id)
	case strings.Contains(r.mount.Root, nativeSnapshots):
		return r.native(mounts, mountpoint, id)
	}
	return r.engineDirectory(id)
}

// mountOf returns the ID of the mount that a directory is in (proc_pid_fdinfo(5); statx(2) has it since Linux 5.8).
func mountOf(at int, path string) (id int, err error) {
	fd, err := unix.Openat(at, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "mnt_id:")
	_, err = fmt.Sscan(after, &id)
	return id, err
}

// mounts sets the mount of the root, by its ID, and returns all mounts of the same device.
func (r *root) mounts(id int) (same []*mountinfo.Info, err error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	same, err = mountinfo.GetMountsFromReader(f, func(m *mountinfo.Info) (skip, stop bool) {
		if m.ID == id {
			r.mount = m
		}
		device := m.Major == int(r.stat.Dev_major) && m.Minor == int(r.stat.Dev_minor)
		return !device && !strings.Contains(m.Root, nativeSnapshots), false
	})
	return same, err
}

const (
	fuseOverlay = "fuse.fuse-overlayfs"
	// nativeSnapshots is in the path of each snapshot of containerd's native snapshotter.
	nativeSnapshots = ".native/snapshots/"
)

// overlay checks an overlay, and finds its layers.
func (r *root) overlay(mounts []*mountinfo.Info, mountpoint bool, id string) error {
	upper := option(r.mount.VFSOptions, "upperdir")
	at, alone := r.mount.Mountpoint, len(mounts) == 1
	for _, m := range mounts {
		if len(mounts) == 2 && podmanMount(m.Mountpoint, id) {
			at, alone = m.Mountpoint, true
		}
	}
	switch {
	case !mountpoint || r.mount.Root != "/":
		return errors.New("it is a part of an overlay")
	case r.mount.FSType == "overlay" && upper == "":
		return errors.New("the overlay has no layer of the container's own")
	case !alone:
		return fmt.Errorf("it is shared: the same overlay is mounted %d times", len(mounts))
	}
	r.layers(at, upper)
	return nil
}

// podmanMount reports whether podman has mounted a container's root at a path. If the container has users of its own,
// podman binds it to a second place, and has the runtime use that.
func podmanMount(path, id string) bool {
	dir, name := filepath.Split(path)
	home, layer := filepath.Split(filepath.Clean(dir))
	return name == "merged" && podmanLayer(filepath.Clean(home)+"-containers", id) == layer
}

// native checks a directory of containerd's native snapshotter, which makes one for each container.
func (r *root) native(mounts []*mountinfo.Info, mountpoint bool, id string) error {
	same := 0
	for _, m := range mounts {
		if m.Root == r.mount.Root && m.Major == r.mount.Major && m.Minor == r.mount.Minor {
			same++
		}
	}
	_, number, _ := strings.Cut(r.mount.Root, nativeSnapshots)
	_, err := strconv.ParseUint(number, 10, 64)
	switch {
	case !mountpoint || err != nil || !strings.HasSuffix(r.mount.Mountpoint, "/"+id+"/rootfs"):
		return errors.New("a snapshot that is not this container's")
	case same != 1:
		return fmt.Errorf("it is shared: the snapshot is mounted %d times", same)
	}
	return nil
}

// engineDirectory checks a directory: docker and podman record which one is of which container.
func (r *root) engineDirectory(id string) error {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", r.fd))
	if err != nil {
		return err
	}
	dir, name := filepath.Split(path)
	for driver, at := range map[string]string{"vfs": "/vfs/dir/", "btrfs": "/btrfs/subvolumes/", "zfs": "/zfs/graph/"} {
		home, is := strings.CutSuffix(dir, at)
		if !is || id == "" || filepath.Base(id) != id {
			continue
		}
		if got, err := os.ReadFile(filepath.Join(home, "image", driver, "layerdb/mounts", id, "mount-id")); err == nil && string(got) == name {
			return nil
		}
		if podmanLayer(filepath.Join(home, driver+"-containers"), id) == name {
			return nil
		}
	}
	return fmt.Errorf("a directory on %s that no engine made for this container alone", r.mount.FSType)
}

// podmanLayer returns the layer of a container, from the files of containers/storage about one driver; "" for none.
// Those of 'podman run --rm' are in a file of their own.
func podmanLayer(dir, id string) string {
	const maxText = 16 << 20
	for _, name := range []string{"containers.json", "volatile-containers.json"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		var all []struct{ ID, Layer string }
		err = json.NewDecoder(io.LimitReader(f, maxText)).Decode(&all)
		f.Close()
		for _, c := range all {
			if err == nil && c.ID == id {
				return c.Layer
			}
		}
	}
	return ""
}

// layers finds the directories of an overlay that is mounted at a path. Names in mountinfo may be cut short, relative or descriptors of another
// process; docker and podman write them to the file "lower" beside the mount.
func (r *root) layers(at, upper string) {
	dir := filepath.Dir(at)
	home := filepath.Dir(dir)
	var names []string
	if text, err := os.ReadFile(filepath.Join(dir, "lower")); err == nil && filepath.Base(at) == "merged" {
		names = strings.Split(strings.TrimSpace(string(text)), ":")
		upper = filepath.Join(dir, "diff")
	} else {
		names, home = lowerOptions(r.mount.VFSOptions), filepath.Dir(filepath.Dir(upper))
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, upper, 0, statxMask, &st); err != nil {
		return
	}
	// An overlay's root shows the times of its upper directory (fs/overlayfs/inode.c, ovl_getattr).
	if r.mount.FSType != fuseOverlay && (st.Mtime != r.stat.Mtime || st.Ctime != r.stat.Ctime) {
		return
	}
	own, lower := []string{upper}, []string(nil)
	for _, name := range names {
		if !filepath.IsAbs(name) {
			name = filepath.Join(home, name)
		}
		real, err := filepath.EvalSymlinks(name)
		if err != nil {
			return
		}
		if real == dir+"-init/diff" { // docker's second directory of this container
			own = append(own, real)
			continue
		}
		lower = append(lower, real)
	}
	if len(lower) > 0 {
		r.own, r.lower = own, lower
	}
}

// lowerOptions returns the lower directories in the options of an overlay, data-only ones as well
// (Documentation/filesystems/overlayfs.rst).
func lowerOptions(options string) (names []string) {
	for o := range strings.SplitSeq(options, ",") {
		name, value, _ := strings.Cut(o, "=")
		switch name {
		case "lowerdir":
			names = append(names, strings.Split(value, ":")...)
		case "lowerdir+", "datadir+":
			names = append(names, value)
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

// identity is what the cache knows directories by: device, inode and birth time of each, and the change time of those that
// do not change, the layers. "" if one of them has none.
func identity(dirs []string, unchanged bool) (text string) {
	for _, dir := range dirs {
		var st unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, dir, 0, statxMask, &st); err != nil {
			return ""
		}
		text += fmt.Sprintf("%d:%d %d %d.%d\n", st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
		if unchanged {
			text += fmt.Sprintf("%d.%d\n", st.Ctime.Sec, st.Ctime.Nsec)
		}
	}
	return text
}

// errInUse: another process runs in the root.
var errInUse = errors.New("root: a process has it as its root: nothing is changed")

// inUse returns errInUse if a process other than except has the root as its own.
func (r *root) inUse(except int) error {
	processes, err := os.ReadDir("/proc")
	own := unix.Mkdev(r.stat.Dev_major, r.stat.Dev_minor)
	for _, p := range processes {
		var st unix.Stat_t
		if pid, err := strconv.Atoi(p.Name()); err != nil || pid == except {
			continue
		}
		if unix.Stat("/proc/"+p.Name()+"/root", &st) == nil && st.Dev == own && st.Ino == r.stat.Ino {
			return fmt.Errorf("%w (%s)", errInUse, p.Name())
		}
	}
	return err
}

// links returns how many names a file has. fuse-overlayfs shows the names of one inode as so many files.
func (r *root) links(st *unix.Stat_t) int {
	if r.mount.FSType == fuseOverlay {
		return 1
	}
	return int(st.Nlink)
}

// openAt opens a file below a directory, and never waits for a FIFO or device.
func openAt(dir int, name string, flags int) (int, error) {
	if name == "" {
		name = "."
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY), Resolve: beneath}
	for {
		fd, err := unix.Openat2(dir, name, &how)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func hasOption(options, name string) bool {
	return slices.Contains(strings.Split(options, ","), name)
}

// option returns the value of an option, "" for none.
func option(options, name string) string {
	for o := range strings.SplitSeq(options, ",") {
		if value, is := strings.CutPrefix(o, name+"="); is {
			return value
		}
	}
	return ""
}
