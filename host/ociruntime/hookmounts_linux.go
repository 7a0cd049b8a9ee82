// The hook's mounts in the container's mount namespace: detached read-only mounts of copies, moved into place by
// descriptor. This needs Linux 5.12 (mount_setattr).

package ociruntime

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
)

// attach mounts the additions of a start and checks that the container sees them.
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
	// Read-only from here on: file systems in memory needed files to mount over.
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

// stays returns nil if a mount at a real path stays in the container: in a mount with shared propagation
// (mount_namespaces(7)) it would also appear on the machine and in other containers.
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

// memory creates a file system in memory, with those options of a mount(8) that have a value.
func (k *container) memory(m specMount) (int, error) {
	uid, gid := k.spec.containerRoot()
	return detachedMount(m.Type, append([]string{"source=vfix", fmt.Sprintf("uid=%d", uid), fmt.Sprintf("gid=%d", gid)}, m.Options...)...)
}

// detachedMount mounts a file system at no path.
func detachedMount(kind string, options ...string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
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

// target opens the real path that a mount covers. It creates a missing one, as the real runtime does for mounts of
// config.json, in the root and in mounts of vfix, but never in a mount of the engine, which may be a shared
// volume.
func (k *container) target(name string, dir bool) (int, error) {
	at, err := k.root.Name("")
	if err != nil {
		return -1, err
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		isDir, how := dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC
		if i < len(parts)-1 {
			isDir, how = true, how|unix.O_DIRECTORY
		}
		next := -1
		if err = unix.EXDEV; part != "" && part != ".." {
			next, err = unix.Openat(at, part, how, 0)
		}
		if errors.Is(err, unix.ENOENT) {
			if err = k.mayMake(at); err == nil {
				err = k.made(at, part, isDir)
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

// mayMake returns nil if a name can be created in a directory, because it is not in a mount that the engine made.
func (k *container) mayMake(dir int) error {
	id, err := rootfs.MountOf(dir)
	if err != nil {
		return err
	}
	// Some of the other mounts may have ended, and new mounts get their IDs.
	if slices.ContainsFunc(k.mounts, func(m mount) bool { return m.ID == id && m.isBelow(k.root.Path) }) {
		return errors.New("it does not exist, and would be created in a mount of the engine")
	}
	return nil
}

// made creates a directory or an empty file, owned by the container's root; existing ones do not change.
func (k *container) made(at int, name string, dir bool) error {
	const dirMode, fileMode = 0o755, 0o644
	var err error
	if dir {
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

// putOver moves a mount over an O_PATH descriptor, if that is still what was examined.
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

// seen returns nil if the container sees a mount at a real path.
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

// setOptions applies the options that vfix writes into config.json to a mount; those with a value belong to the
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
