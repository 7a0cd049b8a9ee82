//go:build linux || darwin

// Files on disk on Unix: names that share an inode, and copies of owner, mode, xattrs and times.

package contents

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/filecopy"
)

// OpenNoBlock prevents open from waiting for a writer if the path has become a fifo.
const OpenNoBlock = unix.O_NONBLOCK | unix.O_NOFOLLOW

// FileID identifies an inode.
type FileID struct{ dev, ino uint64 }

// Identify returns the inode of fi and its number of names.
func Identify(fi fs.FileInfo) (FileID, uint64) {
	st := fi.Sys().(*syscall.Stat_t)
	return FileID{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink)
}

// specialFS are the file systems whose files come from the Linux kernel, by their magic numbers (linux/magic.h);
// devtmpfs counts as tmpfs there, and has no regular files. Other systems have small numbers.
var specialFS = map[int64]string{
	0x9fa0: "proc", 0x62656572: "sysfs", 0x1cd1: "devpts", 0x27e0eb: "cgroup", 0x63677270: "cgroup2",
	0x64626720: "debugfs", 0x74726163: "tracefs", 0x73636673: "securityfs", 0xcafe4a11: "bpf", 0x6165676c: "pstore",
	0xde5e81e4: "efivarfs", 0xf97cff8c: "selinuxfs", 0x6e736673: "nsfs", 0x42494e4d: "binfmt_misc", 0x958458f6: "hugetlbfs",
}

// Special reports whether an open directory is on a special file system.
func Special(dir *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(dir.Fd()), &st) == nil && specialFS[int64(st.Type)] != ""
}

// onlyRoot reports whether an error means that the caller may not set some metadata; EINVAL is an ID that the
// caller's user namespace does not map (chown(2)), ENOTSUP a kind of xattr or file that the file system does not have.
func onlyRoot(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP)
}

// give sets all metadata except the times on an open file or directory: POSIX ACLs, security.capability and
// security.selinux are xattrs. The owner comes first, as chown clears the setuid bit and security.capability
// (kernel: notify_change, ATTR_KILL_SUID; cap_inode_killpriv). It omits metadata that only root may set, and
// returns it; with another owner a file has no setuid, setgid and sticky bits.
func (e *Entry) give(to *os.File) (lost []string, err error) {
	const noPrivileges = 0o777
	fd, mode, owner := int(to.Fd()), uint32(e.Mode), fmt.Sprintf("%d:%d", e.Uid, e.Gid)
	err = to.Chown(e.Uid, e.Gid)
	switch {
	case err == nil:
	case !onlyRoot(err):
		return nil, fmt.Errorf("keep owner %s: %w", owner, err)
	case e.Uid == os.Geteuid():
		lost = []string{LostGroup + fmt.Sprint(e.Gid)}
	default:
		_ = to.Chown(-1, e.Gid) // if it is a group of the caller
		lost = []string{"owner " + owner}
	}
	if len(lost) > 0 {
		mode &= noPrivileges
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return nil, fmt.Errorf("keep mode %#o: %w", mode, err)
	}
	for _, name := range e.xattrs() {
		value := e.PAXRecords[blob.XattrPrefix+name]
		if is, err := filecopy.GetXattr(fd, name); err == nil && string(is) == value {
			continue
		}
		err := unix.Fsetxattr(fd, name, []byte(value), 0)
		switch {
		case onlyRoot(err):
			lost = append(lost, name)
		case err != nil:
			return nil, fmt.Errorf("keep xattr %s: %w", name, err)
		}
	}
	return lost, nil
}

// LostGroup begins the text for a loss of the group, but not of the user.
const LostGroup = "group "

// nameless is a file whose owners have no names, whatever this machine calls them.
type nameless struct{ fs.FileInfo }

func (nameless) Uname() (string, error) { return "", nil }
func (nameless) Gname() (string, error) { return "", nil }

// statHeader is tar.FileInfoHeader, which also has the times of the last access and change.
func statHeader(fi fs.FileInfo) (*tar.Header, error) { return tar.FileInfoHeader(nameless{fi}, "") }

// openedEntry returns the entry of an open file, with its xattrs, and its header, which has more times.
func openedEntry(f *os.File) (*Entry, *tar.Header, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	h, err := statHeader(fi)
	if err != nil {
		return nil, nil, err
	}
	e := &Entry{Header: cleaned(h, fi.Name()), Disk: fi}
	return e, h, e.readXattrs(f)
}

// readXattrs adds all xattrs of the open file that the caller can read.
func (e *Entry) readXattrs(f *os.File) error {
	names, err := filecopy.ListXattrs(int(f.Fd()))
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
		return nil
	}
	if len(names) > 0 {
		e.PAXRecords = map[string]string{}
	}
	for _, name := range names {
		v, err := filecopy.GetXattr(int(f.Fd()), name)
		if err != nil {
			return fmt.Errorf("xattr %s: %w", name, err)
		}
		e.PAXRecords[blob.XattrPrefix+name] = string(v)
	}
	return err
}
