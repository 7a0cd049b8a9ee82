// The folder of patched copies: how one is written, and how one that is there is checked.

package hotfix

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/sparse"
	"vfix.dev/vfix/internal/xattrs"
)

// copyFolder writes patched copies into a folder, each under the SHA-256 of its content, owner,
// mode, time and xattrs: the same file of two images is kept once, and what a container has
// mounted is never changed.
type copyFolder struct {
	path  string // absolute
	root  *os.Root
	leave func()
	e     engine.Traits
	p     progress.Reporter
	noted bool // that copies cannot be made immutable
}

const (
	// A copy may be setuid, and is not in a container's folder that others cannot enter.
	copyFolderMode = 0o700
	notOthers      = 0o022 // write permission of group and others
	noteOthers     = 0o011 // search permission of them
	setID          = unix.S_ISUID | unix.S_ISGID
)

func openCopyFolder(dir string, e engine.Traits, p progress.Reporter) (*copyFolder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			err = hinterr.With(err, "name a directory of your own: -o DIR")
		}
		return nil, err
	}
	if err := os.Mkdir(dir, copyFolderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	// Where the path has symlinks in it, an engine is told what they name today.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	k := &copyFolder{path: dir, root: root, e: e, p: p}
	if err := k.check(); err != nil {
		root.Close()
		return nil, err
	}
	if k.leave, err = atomicfile.Enter(root); err != nil {
		root.Close()
		return nil, err
	}
	return k, nil
}

func (k *copyFolder) close() {
	k.leave()
	k.root.Close()
}

// check refuses a folder in which others can change what a container runs.
func (k *copyFolder) check() error {
	d, err := k.root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return err
	}
	if euid := os.Geteuid(); int(st.Uid) != euid && st.Uid != 0 || st.Mode&notOthers != 0 {
		return hinterr.With(fmt.Errorf("%s: others may write to it (owner %d, mode %#o), and so change what the container runs", k.path, st.Uid, st.Mode&0o7777),
			"name a directory of your own: -o DIR")
	}
	return nil
}

// put writes a file of size bytes and returns its absolute path. One that is there already and
// sound is left alone.
func (k *copyFolder) put(ctx context.Context, want contents.Meta, size int64, r io.Reader) (string, error) {
	if err := k.mapOwner(&want); err != nil {
		return "", err
	}
	temp := atomicfile.FolderName()
	f, err := k.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	defer k.root.Remove(temp)
	sum := sha256.New()
	n, err := sparse.Copy(f, io.TeeReader(blob.Reading{Ctx: ctx, Reader: r}, sum))
	if err != nil {
		return "", err
	}
	if n != size {
		return "", fmt.Errorf("got %d bytes, want %d", n, size)
	}
	content := sum.Sum(nil)
	name := keptName(content, &want)
	path := filepath.Join(k.path, name)
	if k.sound(name, content, &want) {
		return path, nil
	}
	if err := release(path); err != nil {
		return "", err
	}
	if err := setMeta(f, &want); err != nil {
		return "", err
	}
	k.label(f, path)
	if err := k.root.Chtimes(temp, want.Mtime, want.Mtime); err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	if err := k.root.Rename(temp, name); err != nil {
		return "", err
	}
	k.protect(f, path)
	if fi, err := k.root.Stat("."); err == nil && fi.Mode()&noteOthers != 0 && want.Mode&setID != 0 {
		k.p.Note("%s: set-user-ID or set-group-ID, in a directory that others may enter", path)
	}
	return path, contents.SyncFolder(k.root, ".")
}

// mapOwner makes owner and xattrs what those in the container are outside of it.
func (k *copyFolder) mapOwner(m *contents.Meta) error {
	euid, egid := os.Geteuid(), os.Getegid()
	switch {
	case k.e.Rootless:
		if m.UID != 0 || m.GID != 0 {
			return hinterr.Errorf(hinterr.ErrUnsupported, "owner %d:%d: in a rootless engine only files of root can be given to a container", m.UID, m.GID)
		}
		m.UID, m.GID = euid, egid
	case euid != 0 && (m.UID+k.e.ShiftUID != euid || m.GID+k.e.ShiftGID != egid):
		return hinterr.With(fmt.Errorf("owner %d:%d: %w", m.UID, m.GID, fs.ErrPermission), "run vfix as root, or for a rootless engine with 'podman unshare' or 'nsenter -U --preserve-credentials -t $(cat $XDG_RUNTIME_DIR/docker.pid)', so that the copies can have the owner of the originals")
	default:
		m.UID += k.e.ShiftUID
		m.GID += k.e.ShiftGID
	}
	m.Xattrs = maps.Clone(m.Xattrs)
	delete(m.Xattrs, selinuxXattr) // of the machine where the image was made
	if raw, ok := m.Xattrs[capabilityXattr]; ok && k.e.ShiftUID != 0 {
		m.Xattrs[capabilityXattr] = namespacedCapability(raw, uint32(k.e.ShiftUID))
	}
	return nil
}

// capabilityXattr holds a program's capabilities. Its first word has the revision in its
// highest byte; revision 3 is 2 with the uid behind it that is root in the user namespace
// where they count (linux/capability.h, vfs_ns_cap_data).
const (
	capabilityXattr     = "security.capability"
	capabilitySize2     = 20
	capabilityRevision2 = 2
	capabilityRevision3 = 3
)

func namespacedCapability(raw string, root uint32) string {
	b := []byte(raw)
	if len(b) != capabilitySize2 || b[3] != capabilityRevision2 {
		return raw
	}
	b[3] = capabilityRevision3
	return string(binary.LittleEndian.AppendUint32(b, root))
}

// keptName is the name of a copy: 64 hex digits.
func keptName(content []byte, m *contents.Meta) string {
	h := sha256.New()
	field := func(s string) {
		_ = binary.Write(h, binary.LittleEndian, uint64(len(s))) // a hash does not err
		io.WriteString(h, s)
	}
	field(string(content))
	field(fmt.Sprintf("%d:%d %#o %d", m.UID, m.GID, m.Mode, m.Mtime.UnixNano()))
	for _, key := range contents.SortedKeys(m.Xattrs) {
		field(key)
		field(m.Xattrs[key])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sound reports whether a copy is there and is what its name says.
func (k *copyFolder) sound(name string, content []byte, want *contents.Meta) bool {
	f, err := k.root.OpenFile(name, os.O_RDONLY|contents.OpenNoBlock, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return false
	}
	is := contents.DiskMeta(fi)
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return false
	}
	if slices.ContainsFunc(contents.SortedKeys(want.Xattrs), func(key string) bool {
		v, err := xattrs.Get(int(f.Fd()), key)
		return err != nil || string(v) != want.Xattrs[key]
	}) {
		return false
	}
	if is.UID != want.UID || is.GID != want.GID || is.Mode != want.Mode || !is.Mtime.Equal(want.Mtime) || string(sum.Sum(nil)) != string(content) {
		return false
	}
	k.protect(f, filepath.Join(k.path, name)) // whoever wrote it may have been killed before that
	return true
}

// protect makes a copy immutable (ioctl_iflags(2)). Engines mount it read-only, but a process with CAP_SYS_ADMIN takes
// that off the mount of its container, and every container with this copy would run what it writes. The flag
// is of the file itself, and to clear it takes CAP_LINUX_IMMUTABLE on the machine.
func (k *copyFolder) protect(f *os.File, path string) {
	err := setImmutable(f, true)
	if err != nil && !k.noted {
		k.noted = true
		k.p.Note("%s: cannot be made immutable (%v): a container with CAP_SYS_ADMIN can change it for all that mount it", path, err)
	}
}

// release takes the flag off a copy that is about to be removed or replaced.
func release(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|contents.OpenNoBlock, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := setImmutable(f, false); err != nil && !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// immutable is FS_IMMUTABLE_FL of linux/fs.h.
const immutable = 0x10

// setImmutable sets or clears the flag; without a call where it is so already.
func setImmutable(f *os.File, on bool) error {
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	want := flags &^ immutable
	if on {
		want |= immutable
	}
	if want == flags {
		return nil
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(want))
}

// setMeta gives a new file owner, mode and xattrs, in the order in which the kernel
// leaves each of them alone (see copyMetaBut).
func setMeta(f *os.File, m *contents.Meta) error {
	if err := f.Chown(m.UID, m.GID); err != nil {
		return fmt.Errorf("owner %d:%d: %w", m.UID, m.GID, err)
	}
	if err := unix.Fchmod(int(f.Fd()), uint32(m.Mode)); err != nil {
		return fmt.Errorf("mode %#o: %w", m.Mode, err)
	}
	for _, key := range contents.SortedKeys(m.Xattrs) {
		if err := unix.Fsetxattr(int(f.Fd()), key, []byte(m.Xattrs[key]), 0); err != nil {
			return hinterr.With(fmt.Errorf("xattr %s: %w", key, err), "name a directory on a file system with extended attributes: -o DIR")
		}
	}
	return nil
}

// SELinux: a container may read what has this type, whatever its own categories are
// (container-selinux, container.te). The folder is there only where SELinux is on.
const (
	selinuxXattr   = "security.selinux"
	selinuxFolder  = "/sys/fs/selinux/enforce"
	containerLabel = "system_u:object_r:container_ro_file_t:s0"
)

func (k *copyFolder) label(f *os.File, path string) {
	if _, err := os.Stat(selinuxFolder); err != nil {
		return
	}
	if err := unix.Fsetxattr(int(f.Fd()), selinuxXattr, []byte(containerLabel), 0); err != nil {
		k.p.Note("%s: SELinux label %s: %v; containers may not read it before: chcon -t container_file_t %s", path, containerLabel, err, path)
	}
}
