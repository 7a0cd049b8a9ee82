//go:build linux || darwin

// Files on disk on Unix: which names share an inode, and copying owner, mode, xattrs and
// times.

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

// OpenNoBlock keeps the opening of what has become a fifo from waiting for a writer.
const OpenNoBlock = unix.O_NONBLOCK | unix.O_NOFOLLOW

// FileID names an inode.
type FileID struct{ dev, ino uint64 }

// Identify returns the inode of fi and how many names it has.
func Identify(fi fs.FileInfo) (FileID, uint64) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return FileID{}, 1
	}
	return FileID{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink)
}

func sameFS(a, b FileID) bool { return a.dev == b.dev }

// onlyRoot reports whether an error says that the caller has no right to give a file
// something; EINVAL is an ID that the caller's user namespace does not map (chown(2)).
func onlyRoot(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL)
}

// Give gives an open file or directory all of m but the times: POSIX ACLs, security.capability and
// security.selinux are xattrs. The owner comes first: chown clears the setuid bit and security.capability
// (kernel: notify_change, ATTR_KILL_SUID; cap_inode_killpriv). Metadata that only root may give is left out and
// returned.
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

// noPrivileges are the mode bits that a file with another owner keeps: without setuid and setgid,
// which are setID, and sticky.
const (
	noPrivileges = 0o777
	setID        = 0o6000
)

func (m *Meta) owner() Loss { return Loss{LostOwner, fmt.Sprintf("%d:%d", m.UID, m.GID)} }

// lostXattrs are those of m, if none can be given.
func (m *Meta) lostXattrs() (lost []Loss) {
	for _, name := range SortedKeys(m.Xattrs) {
		lost = append(lost, Loss{Kind: name})
	}
	return lost
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
	return root.Chtimes(name, time.Unix(st.Atim.Unix()), time.Unix(st.Mtim.Unix()))
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

// SyncFolder makes the kernel write the names in a folder to the disk.
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

// nodeTypes are the types of devices and fifos by their tar type flags.
var nodeTypes = map[byte]uint32{tar.TypeFifo: unix.S_IFIFO, tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK}

// MakeNode makes the device or fifo that e describes under a name in root. Metadata that only root may
// give it are left out and returned.
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

// GiveLink gives a symlink the owner and times of m. Metadata that only root may give, and xattrs, are
// left out and returned.
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

// openParent opens the folder that name is in: what follows works on its descriptor, so
// that no component of name is looked up again.
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

// giveOwner gives a file its owner with chown; one that only root may give is left out and returned.
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
	_ = chown(-1, int(m.GID)) // a group of the caller's
	return []Loss{m.owner()}, nil
}

func (m *Meta) giveTimes(at int, base string) error {
	t := unix.NsecToTimespec(m.Mtime.UnixNano())
	return unix.UtimesNanoAt(at, base, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

// DiskMeta is the metadata of a file, without its xattrs.
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
