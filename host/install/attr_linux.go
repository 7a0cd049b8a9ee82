// The metadata of files on Linux (owner, mode, extended attributes), and the lock on a directory.

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/filemarks"
	"vfix.dev/vfix/internal/xattrs"
)

// Extended attributes: a file's SELinux label (linux/xattr.h, XATTR_NAME_SELINUX), and a POSIX ACL. Its mask
// is the group part of the mode: without the list, the mode alone would give the group rights that the list
// denies it.
const (
	labelXattr = "security.selinux"
	aclXattr   = "system.posix_acl_access"
)

func metaOf(f *os.File, fi fs.FileInfo) meta {
	m := meta{Mode: fi.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky), MTime: fi.ModTime(), Attrs: map[string][]byte{}}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		m.UID, m.GID = int(st.Uid), int(st.Gid)
	}
	names, _ := xattrs.List(int(f.Fd())) // none, if the file system has none
	for _, name := range names {
		if v, err := xattrs.Get(int(f.Fd()), name); err == nil && !filemarks.Is(name) {
			m.Attrs[name] = v
		}
	}
	return m
}

// apply gives a file this metadata, and removes the ACL that a new file has from its directory. A file that has lost
// its ACL may be read by others; without another attribute it is what it was: where the kernel knows no labels, or this
// process may set none, it keeps the one that its directory gives.
func (m meta) apply(f *os.File) error {
	if err := f.Chown(m.UID, m.GID); err != nil {
		// A user who installs for himself keeps his files. Root without CAP_CHOWN would change the owner of
		// somebody's files.
		if uid := os.Geteuid(); uid == 0 || uid != m.UID || !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	if err := f.Chmod(m.Mode); err != nil {
		return err
	}
	fd := int(f.Fd())
	for name, v := range m.Attrs {
		if err := unix.Fsetxattr(fd, name, v, 0); err != nil && name == aclXattr {
			return fmt.Errorf("xattr %s: %w", name, err)
		}
	}
	if m.Attrs == nil || m.Attrs[aclXattr] != nil {
		return nil
	}
	if err := unix.Fremovexattr(fd, aclXattr); err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("xattr %s: %w", aclXattr, err)
	}
	return nil
}

// lock takes the directory for this process until it is closed.
func lock(dir *os.File) error {
	err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrBusy
	}
	return err
}
