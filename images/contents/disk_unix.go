//go:build linux || darwin

// Files on disk on Unix: names that share an inode, and copies of owner, mode, xattrs and times.

package contents

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/xattrs"
)

// OpenNoBlock prevents open from waiting for a writer if the path has become a fifo.
const OpenNoBlock = unix.O_NONBLOCK | unix.O_NOFOLLOW

// FileID identifies an inode.
type FileID struct{ dev, ino uint64 }

// Identify returns the inode of fi and its number of names.
func Identify(fi fs.FileInfo) (FileID, uint64) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return FileID{}, 1
	}
	return FileID{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink)
}

func sameFS(a, b FileID) bool { return a.dev == b.dev }

// onlyRoot reports whether an error means that the caller may not set some metadata; EINVAL is an ID that the
// caller's user namespace does not map (chown(2)).
func onlyRoot(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL)
}

// Give sets all of m except the times on an open file or directory: POSIX ACLs, security.capability and
// security.selinux are xattrs. The owner comes first, as chown clears the setuid bit and security.capability
// (kernel: notify_change, ATTR_KILL_SUID; cap_inode_killpriv). It omits metadata that only root may set, and
// returns it.
func (m *Meta) Give(to *os.File) (lost []Loss, err error) {
	var is unix.Stat_t
	if err := unix.Fstat(int(to.Fd()), &is); err != nil {
		return nil, err
	}
	lost, err = m.giveOwner(&is, func(uid, gid int) error { return unix.Fchown(int(to.Fd()), uid, gid) })
	if err != nil {
		return nil, err
	}
	mode := m.Mode
	if len(lost) > 0 {
		if mode&setID != 0 {
			lost = append(lost, Loss{Kind: "setuid/setgid"})
		}
		mode &= noPrivileges
	}
	if err := unix.Fchmod(int(to.Fd()), mode); err != nil {
		return nil, fmt.Errorf("keep mode %#o: %w", mode, err)
	}
	for _, name := range SortedKeys(m.Xattrs) {
		if is, err := xattrs.Get(int(to.Fd()), name); err == nil && string(is) == m.Xattrs[name] {
			continue
		}
		err := unix.Fsetxattr(int(to.Fd()), name, []byte(m.Xattrs[name]), 0)
		switch {
		case onlyRoot(err) || errors.Is(err, unix.ENOTSUP):
			lost = append(lost, Loss{Kind: name})
		case err != nil:
			return nil, fmt.Errorf("keep xattr %s: %w", name, err)
		}
	}
	return lost, nil
}

// noPrivileges are the mode bits that a file with another owner keeps: all but setuid and setgid, which are setID,
// and sticky.
const (
	noPrivileges = 0o777
	setID        = 0o6000
)

func (m *Meta) owner() Loss { return Loss{LostOwner, fmt.Sprintf("%d:%d", m.UID, m.GID)} }

// lostXattrs returns the losses if no xattr of m can be set.
func (m *Meta) lostXattrs() (lost []Loss) {
	for _, name := range SortedKeys(m.Xattrs) {
		lost = append(lost, Loss{Kind: name})
	}
	return lost
}

// listXattrs lists the names of a file's xattrs; none if the file system does not support them.
func listXattrs(fd int) ([]string, error) {
	names, err := xattrs.List(fd)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
		return nil, nil
	}
	return names, err
}

// KeepTimes sets the times of from on name in root, to the nanosecond.
func KeepTimes(root *os.Root, name string, from *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &st); err != nil {
		return err
	}
	return root.Chtimes(name, time.Unix(st.Atim.Unix()), time.Unix(st.Mtim.Unix()))
}

// Link gives the file from in one directory the name to in another, relative to the open directories, so that no
// path can change meanwhile. Neither name has a slash.
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

// SyncDir writes the names in a directory to the disk.
func SyncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) {
		return nil // the file system does not support it: fsync(2), EINVAL
	}
	return err
}

// nodeTypes maps tar type flags to types of devices and fifos.
var nodeTypes = map[byte]uint32{tar.TypeFifo: unix.S_IFIFO, tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK}

// MakeNode creates the device or fifo of e as name in root. It omits metadata that only root may set, and returns
// it.
func (e *Entry) MakeNode(root *os.Root, name string) (lost []Loss, err error) {
	kind, ok := nodeTypes[e.Flag]
	if !ok {
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "an entry of the tar type %q, which is not a file, directory, link or device", e.Flag)
	}
	at, base, err := openParent(root, name)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	const private = 0o600
	err = mknodat(int(at.Fd()), base, kind|private, unix.Mkdev(uint32(e.Meta.device.major()), uint32(e.Meta.device.minor())))
	if onlyRoot(err) || errors.Is(err, unix.ENOTSUP) {
		return []Loss{{Kind: "device"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mknod: %w", err)
	}
	mode := e.Meta.Mode
	if lost, err = e.Meta.giveOwnerAt(int(at.Fd()), base); err != nil {
		return nil, err
	}
	if len(lost) > 0 {
		mode &= noPrivileges
	}
	if err := unix.Fchmodat(int(at.Fd()), base, mode, 0); err != nil {
		return nil, err
	}
	return append(lost, e.Meta.lostXattrs()...), e.Meta.giveTimes(int(at.Fd()), base)
}

// GiveLink sets the owner and times of m on a symlink. It omits xattrs, and metadata that only root may set, and
// returns them.
func (m *Meta) GiveLink(root *os.Root, name string) (lost []Loss, err error) {
	at, base, err := openParent(root, name)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	if lost, err = m.giveOwnerAt(int(at.Fd()), base); err != nil {
		return nil, err
	}
	return append(lost, m.lostXattrs()...), m.giveTimes(int(at.Fd()), base)
}

// openParent opens the directory of name, so that later calls on its descriptor do not look up the components of
// name again.
func openParent(root *os.Root, name string) (*os.File, string, error) {
	f, err := root.Open(path.Dir(name))
	return f, path.Base(name), err
}

func (m *Meta) giveOwnerAt(at int, base string) ([]Loss, error) {
	var is unix.Stat_t
	if err := unix.Fstatat(at, base, &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	return m.giveOwner(&is, func(uid, gid int) error { return unix.Fchownat(at, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW) })
}

// giveOwner sets the owner of a file with chown; it omits an owner that only root may set, and returns it.
func (m *Meta) giveOwner(is *unix.Stat_t, chown func(uid, gid int) error) (lost []Loss, err error) {
	if is.Uid == m.UID && is.Gid == m.GID {
		return nil, nil
	}
	err = chown(int(m.UID), int(m.GID))
	switch {
	case err == nil:
		return nil, nil
	case !onlyRoot(err):
		return nil, fmt.Errorf("keep %v: %w", m.owner(), err)
	case m.UID == is.Uid:
		return []Loss{{LostGroup, fmt.Sprint(m.GID)}}, nil
	}
	_ = chown(-1, int(m.GID)) // if it is a group of the caller
	return []Loss{m.owner()}, nil
}

func (m *Meta) giveTimes(at int, base string) error {
	t := unix.NsecToTimespec(m.Mtime.UnixNano())
	return unix.UtimesNanoAt(at, base, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

// DiskMeta returns the metadata of a file, without its xattrs.
func DiskMeta(fi fs.FileInfo) Meta {
	m := Meta{Mtime: fi.ModTime()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		const permissions = 0o7777
		m.Mode, m.UID, m.GID = uint32(st.Mode)&permissions, st.Uid, st.Gid
		if fi.Mode()&fs.ModeDevice != 0 {
			m.device = newDevice(unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
		}
	}
	return m
}

// FileXattrs returns all xattrs that the caller can read.
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
