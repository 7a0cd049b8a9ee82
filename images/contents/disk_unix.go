//go:build linux || darwin

// Files on disk on Unix: names that share an inode, and copies of owner, mode, xattrs and times.

package contents

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/filecopy"
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
		if is, err := filecopy.GetXattr(int(to.Fd()), name); err == nil && string(is) == m.Xattrs[name] {
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

// Loss is metadata that a file lost because the caller is not root: its kind, or the name of an xattr, and its value.
type Loss struct{ Kind, Value string }

// The kinds that callers check for.
const (
	LostOwner = "owner"
	LostGroup = "group" // but not its user
)

func (l Loss) String() string { return strings.TrimSpace(l.Kind + " " + l.Value) }

// listXattrs lists the names of a file's xattrs; none if the file system does not support them.
func listXattrs(fd int) ([]string, error) {
	names, err := filecopy.ListXattrs(fd)
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
		v, err := filecopy.GetXattr(int(f.Fd()), name)
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
