//go:build linux || darwin

// Files on disk on Unix: which names share an inode, and copying owner, mode, xattrs and
// times.

package contents

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/filemarks"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/xattrs"
)

// OpenNoBlock keeps the opening of what has become a fifo from waiting for a writer.
const OpenNoBlock = unix.O_NONBLOCK | unix.O_NOFOLLOW

// FileID names an inode.
type FileID struct{ dev, ino uint64 }

// Identify returns the inode behind fi and how many names it has.
func Identify(fi fs.FileInfo) (FileID, uint64) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return FileID{}, 1
	}
	return FileID{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink)
}

// sameFS reports whether two inodes are on one file system.
func sameFS(a, b FileID) bool { return a.dev == b.dev }

// CopyOwnMeta gives to, a copy that may become the caller's, what from has beside name,
// content and times. What only root may give it is left out and returned. A copy with another owner has no setuid, setgid and sticky
// bits, as cp -p has it.
func CopyOwnMeta(from, to *os.File) (lost []string, err error) {
	err = copyMetaBut(from, to, nil, &lost)
	return lost, err
}

// CopyOwnPatchedMeta is CopyPatchedMeta for such a copy.
func CopyOwnPatchedMeta(from, to *os.File) (dropped, lost []string, err error) {
	if dropped, err = fileMarks(from); err != nil {
		return nil, nil, err
	}
	err = copyMetaBut(from, to, filemarks.Is, &lost)
	return dropped, lost, err
}

// CopyPatchedMeta gives to, a file with another content, what from has beside name, content
// and times, and returns the marks of the old content that were left out.
func CopyPatchedMeta(from, to *os.File) (dropped []string, err error) {
	if dropped, err = fileMarks(from); err != nil {
		return nil, err
	}
	return dropped, copyMetaBut(from, to, filemarks.Is, nil)
}

// fileMarks lists the marks of a file.
func fileMarks(from *os.File) (dropped []string, err error) {
	names, err := listXattrs(int(from.Fd()))
	if err != nil {
		return nil, fmt.Errorf("list xattrs: %w", err)
	}
	for _, name := range names {
		if filemarks.Is(name) {
			dropped = append(dropped, name)
		}
	}
	if hasVerity(from) {
		dropped = append(dropped, "fs-verity")
	}
	return dropped, nil
}

// onlyRoot reports whether an error says that the caller has no right to give a file
// something; EINVAL is an ID that the caller's user namespace does not map (chown(2)).
func onlyRoot(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL)
}

// copyMetaBut gives to the owner, mode and xattrs of from, but not the xattrs that but, which
// may be nil, accepts. The owner comes first: chown clears the setuid bit and
// security.capability (kernel: notify_change, ATTR_KILL_SUID; cap_inode_killpriv). What only root may
// do is an error where lost is nil, and else added to it.
func copyMetaBut(from, to *os.File, but func(xattr string) bool, lost *[]string) error {
	var want, is unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &want); err != nil {
		return err
	}
	if err := unix.Fstat(int(to.Fd()), &is); err != nil {
		return err
	}
	const permissions, noPrivileges = 0o7777, 0o777
	mode := uint32(want.Mode) & permissions
	if want.Uid != is.Uid || want.Gid != is.Gid {
		err := unix.Fchown(int(to.Fd()), int(want.Uid), int(want.Gid))
		switch {
		case err != nil && lost != nil && onlyRoot(err):
			*lost = append(*lost, fmt.Sprintf("owner %d:%d", want.Uid, want.Gid))
			if want.Gid != is.Gid {
				_ = unix.Fchown(int(to.Fd()), -1, int(want.Gid)) // a group of the caller's
			}
			mode &= noPrivileges
		case err != nil:
			return fmt.Errorf("keep owner %d:%d: %w", want.Uid, want.Gid, err)
		}
	}
	if err := unix.Fchmod(int(to.Fd()), mode); err != nil {
		return fmt.Errorf("keep mode %#o: %w", mode, err)
	}
	return copyXattrs(int(from.Fd()), int(to.Fd()), but, lost)
}

// copyXattrs makes all xattrs that the caller can see those of from: POSIX ACLs,
// security.capability and security.selinux are xattrs too.
func copyXattrs(from, to int, but func(string) bool, lost *[]string) error {
	names, err := listXattrs(from)
	if err != nil {
		return fmt.Errorf("list xattrs: %w", err)
	}
	for _, name := range names {
		if but != nil && but(name) {
			continue
		}
		value, err := xattrs.Get(from, name)
		if errors.Is(err, errNoXattr) {
			continue // removed since
		}
		if err != nil {
			return fmt.Errorf("xattr %s: %w", name, err)
		}
		if is, err := xattrs.Get(to, name); err == nil && string(is) == string(value) {
			continue
		}
		if err := unix.Fsetxattr(to, name, value, 0); lost != nil && onlyRoot(err) {
			*lost = append(*lost, name)
		} else if err != nil {
			return fmt.Errorf("keep xattr %s: %w", name, err)
		}
	}
	return nil
}

// listXattrs lists the names of a file's xattrs; none where the file system has no xattrs.
func listXattrs(fd int) ([]string, error) {
	names, err := xattrs.List(fd)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
		return nil, nil
	}
	return names, err
}

// KeepTimes gives name in root the times of from, to the nanosecond.
func KeepTimes(root *os.Root, name string, from *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &st); err != nil {
		return err
	}
	return root.Chtimes(name, timespec(st.Atim), timespec(st.Mtim))
}

// Link gives the file called from in one folder the name to in another. Paths lead nowhere else
// meanwhile: the folders are those that are open. Neither name has a slash in it.
func Link(fromRoot *os.Root, from string, toRoot *os.Root, to string) error {
	dir, err := fromRoot.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	at, err := toRoot.Open(".")
	if err != nil {
		return err
	}
	defer at.Close()
	if err := unix.Linkat(int(dir.Fd()), from, int(at.Fd()), to, 0); err != nil {
		return &os.LinkError{Op: "linkat", Old: from, New: to, Err: err}
	}
	return nil
}

// SyncFolder has the names in a folder written to the disk.
func SyncFolder(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) {
		return nil // a file system that cannot: fsync(2), EINVAL
	}
	return err
}

// CopyNode makes a device or fifo like the one that fi is of.
func CopyNode(to *os.Root, name string, fi fs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return hinterr.Errorf(hinterr.ErrUnsupported, "neither a file nor a folder but %s", fi.Mode().Type())
	}
	at, base, err := openParent(to, name)
	if err != nil {
		return err
	}
	defer at.Close()
	if err := mknodat(int(at.Fd()), base, uint32(st.Mode), uint64(st.Rdev)); err != nil {
		return fmt.Errorf("mknod: %w", err)
	}
	if err := keepOwner(int(at.Fd()), base, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	const permissions = 0o7777
	if err := unix.Fchmodat(int(at.Fd()), base, uint32(st.Mode)&permissions, 0); err != nil {
		return err
	}
	return setTimes(int(at.Fd()), base, fi)
}

// CopyLinkMeta gives a copied symlink the owner and times of the one that fi is of.
func CopyLinkMeta(_, to *os.Root, name string, fi fs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	at, base, err := openParent(to, name)
	if err != nil {
		return err
	}
	defer at.Close()
	if err := setTimes(int(at.Fd()), base, fi); err != nil {
		return err
	}
	return keepOwner(int(at.Fd()), base, int(st.Uid), int(st.Gid))
}

// openParent opens the folder that name is in: what follows works on its descriptor, so
// that no component of name is looked up again.
func openParent(root *os.Root, name string) (*os.File, string, error) {
	f, err := root.Open(path.Dir(name))
	return f, path.Base(name), err
}

func keepOwner(at int, base string, uid, gid int) error {
	var is unix.Stat_t
	if err := unix.Fstatat(at, base, &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if int(is.Uid) == uid && int(is.Gid) == gid {
		return nil
	}
	if err := unix.Fchownat(at, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("keep owner %d:%d: %w", uid, gid, err)
	}
	return nil
}

func setTimes(at int, base string, fi fs.FileInfo) error {
	t := unix.NsecToTimespec(fi.ModTime().UnixNano())
	return unix.UtimesNanoAt(at, base, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

// DiskMeta is the metadata of a file, without its xattrs.
func DiskMeta(fi fs.FileInfo) Meta {
	m := Meta{Mtime: fi.ModTime()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		const permissions = 0o7777
		m.Mode, m.UID, m.GID = int64(st.Mode)&permissions, int(st.Uid), int(st.Gid)
		if fi.Mode()&fs.ModeDevice != 0 {
			m.major, m.minor = int64(unix.Major(uint64(st.Rdev))), int64(unix.Minor(uint64(st.Rdev)))
		}
	}
	return m
}

// FileXattrs reads all xattrs that the caller can see.
func FileXattrs(f *os.File) (map[string]string, error) {
	names, err := listXattrs(int(f.Fd()))
	if err != nil || len(names) == 0 {
		return nil, err
	}
	all := map[string]string{}
	for _, name := range names {
		v, err := xattrs.Get(int(f.Fd()), name)
		if errors.Is(err, errNoXattr) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("xattr %s: %w", name, err)
		}
		all[name] = string(v)
	}
	return all, nil
}
