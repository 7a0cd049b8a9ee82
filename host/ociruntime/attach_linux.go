// The mounts of a hook. config.json has been read by then, so they are made in the container's mount
// namespace: as detached mounts in the engine's, where the cache is, which are then moved into place.
// Linux 5.12 (mount_setattr) and later can do that.

package ociruntime

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
)

// detached is a mount that is nowhere yet.
type detached struct {
	at string // real path in the root
	fd int
}

// attach mounts what a start has added in the container's mount namespace. What is mounted then needs its
// private copy's name no longer.
func (k *container) attach() error {
	defer k.store.Release()
	root, err := rootfs.Open(k.root.Path)
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	defer root.Close()
	var all []detached
	defer func() {
		for _, d := range all {
			unix.Close(d.fd)
		}
	}()
	for _, m := range k.add {
		d, err := k.detach(root, m, all)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.Destination, err)
		}
		all = append(all, d)
	}
	// Read-only from now on: files to mount over had to be made in those of memory.
	for i, m := range k.add {
		if err := setOptions(all[i].fd, m.Options); err != nil {
			return fmt.Errorf("mount at %s: %w", m.Destination, err)
		}
	}
	st, err := root.Stat()
	if err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: a thread in another namespace ends with its goroutine
		done <- attachIn(k.pid, root.Path, st, all)
	}()
	return <-done
}

// detach makes one mount, and what it will be mounted over.
func (k *container) detach(root *rootfs.Root, m specMount, before []detached) (d detached, err error) {
	d.at = strings.TrimPrefix(m.Destination, "/")
	if m.Type == "tmpfs" {
		d.fd, err = k.memory(m)
	} else {
		d.fd, err = unix.OpenTree(unix.AT_FDCWD, m.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	}
	if err != nil {
		return d, err
	}
	above := slices.IndexFunc(before, func(b detached) bool { return strings.HasPrefix(d.at, b.at+"/") })
	if above >= 0 {
		err = k.target(before[above].fd, strings.TrimPrefix(d.at, before[above].at+"/"), m.Type == "tmpfs")
	} else if _, lerr := root.Lstat(d.at); lerr != nil {
		var top int
		if top, err = root.Folder(""); err == nil {
			err = k.target(top, d.at, m.Type == "tmpfs")
			unix.Close(top)
		}
	}
	if err != nil {
		unix.Close(d.fd)
	}
	return d, err
}

// memory makes a file system in memory, with the options of a mount(8) that have a value.
func (k *container) memory(m specMount) (int, error) {
	fs, err := unix.Fsopen(m.Type, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	uid, gid := k.spec.containerRoot()
	options := append([]string{"source=vfix", fmt.Sprintf("uid=%d", uid), fmt.Sprintf("gid=%d", gid)}, m.Options...)
	for _, o := range options {
		if name, value, ok := strings.Cut(o, "="); ok {
			if err := unix.FsconfigSetString(fs, name, value); err != nil {
				return -1, fmt.Errorf("%s: %w", o, err)
			}
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
}

// target makes what a mount is put over, as the real runtime does for mounts of config.json: a real path
// below the folder at a descriptor, and the folders that lead there.
func (k *container) target(at int, name string, folder bool) error {
	uid, gid := k.spec.containerRoot()
	const dirMode, fileMode = 0o755, 0o644
	at, err := unix.Dup(at)
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		if err := made(unix.Mkdirat(at, part, dirMode), at, part, uid, gid); err != nil {
			return err
		}
		next, err := unix.Openat(at, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		unix.Close(at)
		at = next
	}
	last := path.Base(name)
	if folder {
		return made(unix.Mkdirat(at, last, dirMode), at, last, uid, gid)
	}
	return made(unix.Mknodat(at, last, unix.S_IFREG|fileMode, 0), at, last, uid, gid)
}

// made gives what was just made to its owner; what had been there stays as it is.
func made(err error, at int, name string, uid, gid uint32) error {
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	return unix.Fchownat(at, name, int(uid), int(gid), unix.AT_SYMLINK_NOFOLLOW)
}

// setOptions gives a mount the options of config.json that vfix writes; those with a value are of the
// file system.
func setOptions(fd int, options []string) error {
	attr := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	for _, o := range options {
		switch o {
		case "ro":
			attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		case "nodev":
			attr.Attr_set |= unix.MOUNT_ATTR_NODEV
		case "nosuid":
			attr.Attr_set |= unix.MOUNT_ATTR_NOSUID
		}
	}
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr)
}

// attachIn joins the mount namespace of a process, which has the root at the same path until pivot_root.
// The thread stays in it.
func attachIn(pid int, root string, is unix.Statx_t, all []detached) error {
	ns, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mount namespace of process %d: %w", pid, err)
	}
	defer unix.Close(ns)
	var own, other unix.Stat_t
	if err := errors.Join(unix.Stat("/proc/thread-self/ns/mnt", &own), unix.Fstat(ns, &other)); err != nil || own.Ino == other.Ino {
		return errors.Join(err, errors.New("the container has no mount namespace of its own"))
	}
	// The kernel wants a thread that shares no working directory with others (setns(2)).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(ns, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace of process %d: %w", pid, err)
	}
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("root %s in the container's mount namespace: %w", root, err)
	}
	defer unix.Close(at)
	var st unix.Statx_t
	if err := unix.Statx(at, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return err
	}
	if st.Ino != is.Ino || st.Dev_major != is.Dev_major || st.Dev_minor != is.Dev_minor {
		return fmt.Errorf("root %s in the container's mount namespace: %w", root, rootfs.ErrChanged)
	}
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for _, d := range all {
		over, err := unix.Openat2(at, d.at, &how)
		if err == nil {
			err = unix.MoveMount(d.fd, "", over, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
			unix.Close(over)
		}
		if err != nil {
			return fmt.Errorf("mount at /%s: %w", d.at, err)
		}
	}
	return nil
}
