// The mounts of a hook, made in the container's mount namespace: detached ones, of copies that nobody can write to,
// which are moved into place by descriptor. Linux 5.12 (mount_setattr) and later can do that.

package ociruntime

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
)

// attach mounts what a start has added, and looks whether the container sees it.
func (k *container) attach() error {
	defer k.store.Release()
	mounts, err := k.detached()
	defer func() {
		for _, fd := range mounts {
			unix.Close(fd)
		}
	}()
	if err != nil {
		return err
	}
	for i, a := range k.add {
		over, err := k.target(strings.TrimPrefix(a.Destination, "/"), a.Type == "tmpfs")
		if err == nil {
			err = k.putOver(over, mounts[i], a)
			unix.Close(over)
		}
		if err != nil {
			return fmt.Errorf("mount at %s: %w", a.Destination, err)
		}
	}
	// Read-only from now on: files to mount over had to be made in those of memory.
	for i, a := range k.add {
		err := k.inside.do(func() error { return setOptions(mounts[i], a.Options) })
		if err == nil {
			err = k.seen(strings.TrimPrefix(a.Destination, "/"), mounts[i])
		}
		if err != nil {
			return fmt.Errorf("mount at %s: %w", a.Destination, err)
		}
	}
	return nil
}

// stays is nil where a mount over what is at a real path stays in the container: one in a mount that shares with the
// machine (mount_namespaces(7), "shared") would appear there, and in other containers.
func (k *container) stays(name string) error {
	if k.pid == 0 {
		return nil // the real runtime makes it
	}
	fd, err := k.root.Name(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	id, err := rootfs.MountOf(fd)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(k.mounts, func(m mount) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	_, group, shared := strings.Cut(k.mounts[i].Optional, "shared:")
	group, _, _ = strings.Cut(group, " ")
	if shared && slices.ContainsFunc(k.machine, func(m mount) bool { return m.peers("shared:"+group) || m.peers("master:"+group) }) {
		return errors.New("it is in a mount that is shared with this machine, which would get the patched file as well")
	}
	return nil
}

func (k *container) detached() (all []int, err error) {
	var keys []string
	for _, a := range k.add {
		if a.key != "" {
			keys = append(keys, a.key)
		}
	}
	copies, err := k.store.ReadOnly(keys)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	for _, a := range k.add {
		if a.key != "" {
			all, copies = append(all, copies[0]), copies[1:]
			continue
		}
		fd, err := k.memory(a.specMount)
		if err != nil {
			return append(all, copies...), fmt.Errorf("mount at %s: %w", a.Destination, err)
		}
		all = append(all, fd)
	}
	return all, nil
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

// target opens what a mount is put over, a real path. A missing one is made, as the real runtime does for
// mounts of config.json, in the root itself and in what vfix has mounted: never in a mount of the engine's, which
// may be a volume of others.
func (k *container) target(name string, folder bool) (int, error) {
	at, err := k.root.Name("")
	if err != nil {
		return -1, err
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		isFolder, how := folder, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC
		if i < len(parts)-1 {
			isFolder, how = true, how|unix.O_DIRECTORY
		}
		next := -1
		if err = unix.EXDEV; part != "" && part != ".." {
			next, err = unix.Openat(at, part, how, 0)
		}
		if errors.Is(err, unix.ENOENT) {
			if err = k.mayMake(at); err == nil {
				err = k.made(at, part, isFolder)
			}
			if err == nil {
				next, err = unix.Openat(at, part, how, 0)
			}
		}
		unix.Close(at)
		if at = next; err != nil {
			return -1, err
		}
	}
	return at, nil
}

// mayMake is nil where a name can be made in a folder: it is not of a mount that the engine has made.
func (k *container) mayMake(folder int) error {
	id, err := rootfs.MountOf(folder)
	if err != nil {
		return err
	}
	// Of the others some have ended by now, and new mounts get their numbers.
	if slices.ContainsFunc(k.mounts, func(m mount) bool { return m.ID == id && m.isBelow(k.root.Path) }) {
		return errors.New("not there, and it would be made in a mount of the engine's")
	}
	return nil
}

// made makes a folder or an empty file, which belongs to the container's root; what is there stays as it is.
func (k *container) made(at int, name string, folder bool) error {
	const dirMode, fileMode = 0o755, 0o644
	var err error
	if folder {
		err = unix.Mkdirat(at, name, dirMode)
	} else {
		err = unix.Mknodat(at, name, unix.S_IFREG|fileMode, 0)
	}
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	uid, gid := k.spec.containerRoot()
	return unix.Fchownat(at, name, int(uid), int(gid), unix.AT_SYMLINK_NOFOLLOW)
}

// putOver moves a mount over what is open as a mere name, which is still what was examined.
func (k *container) putOver(over, mount int, a addition) error {
	var st unix.Stat_t
	if err := unix.Fstat(over, &st); err != nil {
		return err
	}
	if a.over != nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || !rootfs.IdentityOf(&st).SameFile(*a.over)) {
		return rootfs.ErrChanged
	}
	return k.inside.do(func() error {
		return unix.MoveMount(mount, "", over, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// seen is nil where the container sees a mount at a real path.
func (k *container) seen(name string, mount int) error {
	fd, err := k.root.Name(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	want, err := rootfs.MountOf(mount)
	if err != nil {
		return err
	}
	if got, err := rootfs.MountOf(fd); err != nil || got != want {
		return errors.Join(err, errors.New("another mount covers it"))
	}
	return nil
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
		case "noexec":
			attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
		}
	}
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr)
}
