// The metadata that a copy takes from its original, and the key of a copy.

package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/filemarks"
	"vfix.dev/vfix/internal/xattrs"
)

// Meta is the metadata of a copy, which is that of its original.
type Meta struct {
	UID, GID     uint32
	Mode         uint32 // permissions, also setuid and setgid
	Atime, Mtime unix.Timespec
	Xattrs       map[string]string
}

// SELinux: a container may read, execute and map files with SharedLabel, whatever its own categories are
// (container-selinux, container_ro_file_t).
const (
	LabelXattr  = "security.selinux"
	SharedLabel = "system_u:object_r:container_ro_file_t:s0"
)

// SELinux reports whether SELinux is enabled: then its file system is mounted.
func SELinux() bool {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return err == nil
}

// ReadMeta reads the metadata of an open file, without vfix's marks, which are about the original's content.
func ReadMeta(fd int) (Meta, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Meta{}, err
	}
	const permissions = 0o7777
	m := Meta{UID: st.Uid, GID: st.Gid, Mode: st.Mode & permissions, Atime: st.Atim, Mtime: st.Mtim}
	names, err := xattrs.List(fd)
	if errors.Is(err, unix.ENOTSUP) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("list xattrs: %w", err)
	}
	m.Xattrs = map[string]string{}
	for _, name := range names {
		if filemarks.Is(name) {
			continue
		}
		value, err := xattrs.Get(fd, name)
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
			continue
		}
		if err != nil {
			return m, fmt.Errorf("xattr %s: %w", name, err)
		}
		m.Xattrs[name] = string(value)
	}
	return m, nil
}

// Label returns the SELinux label, "" for none.
func (m *Meta) Label() string { return strings.TrimRight(m.Xattrs[LabelXattr], "\x00") }

// SetLabel replaces the SELinux label.
func (m *Meta) SetLabel(label string) {
	if m.Xattrs == nil {
		m.Xattrs = map[string]string{}
	}
	m.Xattrs[LabelXattr] = label + "\x00" // the kernel stores it with the NUL
}

// Give sets the metadata of an open file. The owner is first, as chown clears the setuid bit and
// security.capability (notify_change, ATTR_KILL_SUID; cap_inode_killpriv), and the times are last.
func (m *Meta) Give(fd int) error {
	if err := unix.Fchown(fd, int(m.UID), int(m.GID)); err != nil {
		return fmt.Errorf("owner %d:%d: %w", m.UID, m.GID, err)
	}
	if err := unix.Fchmod(fd, m.Mode); err != nil {
		return fmt.Errorf("mode %#o: %w", m.Mode, err)
	}
	for name, value := range m.Xattrs {
		if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil {
			is, ierr := xattrs.Get(fd, name)
			if ierr == nil && string(is) == value {
				continue // the mount gives all files one label, which cannot be set (context=)
			}
			// The ACL of NFS or CIFS, which its server derives from the mode, as overlayfs omits it
			// (fs/overlayfs/copy_up.c, ovl_must_copy_xattr).
			if errors.Is(err, unix.ENOTSUP) && strings.HasPrefix(name, "system.") && !strings.HasPrefix(name, "system.posix_acl_") {
				continue
			}
			return fmt.Errorf("xattr %s: %w", name, err)
		}
	}
	return setTimes(fd, m.Atime, m.Mtime)
}

// Key returns the key of a copy: of the content of the original (its SHA-256), the maker of the copy (the version
// of vfix and of the injected code), its user namespace (idMap, as text), and all metadata except the times.
func (m *Meta) Key(content [sha256.Size]byte, maker, idMap string) string {
	h := sha256.New()
	h.Write(content[:])
	part(h, maker)
	part(h, idMap)
	part(h, fmt.Sprintf("%d:%d:%o", m.UID, m.GID, m.Mode))
	for _, name := range slices.Sorted(maps.Keys(m.Xattrs)) {
		part(h, name)
		part(h, m.Xattrs[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// part hashes a text with its length, so that different lists of texts have different hashes.
func part(h hash.Hash, s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }

// setTimes is futimens(3): utimensat(2) without a name.
func setTimes(fd int, atime, mtime unix.Timespec) error {
	times := [2]unix.Timespec{atime, mtime}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("times: %w", errno)
	}
	return nil
}
