// The metadata of files on Linux (owner, mode, SELinux label), and the lock on a folder.

package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/filemarks"
	"vfix.dev/vfix/internal/xattrs"
)

// labelXattr holds a file's SELinux label (linux/xattr.h, XATTR_NAME_SELINUX).
const labelXattr = "security.selinux"

func metaOf(f *os.File, fi fs.FileInfo) meta {
	m := meta{Mode: fi.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky), MTime: fi.ModTime(), Label: label(f)}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		m.UID, m.GID = int(st.Uid), int(st.Gid)
	}
	m.Attrs = map[string][]byte{}
	names, _ := xattrs.List(int(f.Fd())) // none, where the file system has none
	for _, name := range names {
		if name == labelXattr || filemarks.Is(name) {
			continue // the label has a place of its own
		}
		if v, err := xattrs.Get(int(f.Fd()), name); err == nil {
			m.Attrs[name] = v
		}
	}
	return m
}

// aclXattr holds a POSIX ACL. Its mask is what the mode has for the group: without the list, the mode
// alone would give the group what the list denies it.
const aclXattr = "system.posix_acl_access"

// label returns a file's SELinux label, "" if it has none.
func label(f *os.File) string {
	text, _ := xattrs.Get(int(f.Fd()), labelXattr)
	return string(bytes.TrimRight(text, "\x00"))
}

// apply gives a file this metadata. Where the kernel knows no labels, or this process may set
// none, the file keeps the one that its folder gives.
func (m meta) apply(f *os.File) error {
	if err := f.Chown(m.UID, m.GID); err != nil {
		// A user who installs for himself keeps his files. Root without CAP_CHOWN would take them from
		// somebody.
		if uid := os.Geteuid(); uid == 0 || uid != m.UID || !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	if err := f.Chmod(m.Mode); err != nil {
		return err
	}
	if m.Label != "" && label(f) != m.Label {
		_ = unix.Fsetxattr(int(f.Fd()), labelXattr, append([]byte(m.Label), 0), 0)
	}
	return m.applyAttrs(int(f.Fd()))
}

// applyAttrs sets the other attributes, and removes the ACL that a new file has from its folder. A file that
// has lost its ACL may be read by others; without another attribute it is what it was.
func (m meta) applyAttrs(fd int) error {
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

// lock takes the folder for this process until it is closed.
func lock(dir *os.File) error {
	err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrBusy
	}
	return err
}

func owner() (uid, gid int) { return os.Geteuid(), os.Getegid() }
