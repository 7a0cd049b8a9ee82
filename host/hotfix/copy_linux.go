// The patched copies of a hotfix: a store of their own, whose copies containers mount for as long as they exist.

package hotfix

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/sparse"
)

// copyDir writes patched copies into a store, each under a key of its content, owner, mode, time and xattrs: the
// same file of two images is kept once, and what a container has mounted is never changed.
type copyDir struct {
	store *store.Store
	e     engine.Traits
	p     progress.Reporter
	noted bool // that copies cannot be made immutable
}

func openCopyDir(dir string, e engine.Traits, p progress.Reporter) (*copyDir, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(dir, 0)
	if err == nil {
		_, err = s.Prune(math.MaxInt64) // what was left half-written
	}
	if err == nil {
		err = s.Lease()
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrUnsound) {
		err = hinterr.With(err, "name a directory of your own: -o DIR")
	}
	return &copyDir{store: s, e: e, p: p}, err
}

func (k *copyDir) close() { k.store.Release() }

// put writes a file of size bytes and returns its absolute path. An intact one that exists already is left
// alone.
func (k *copyDir) put(ctx context.Context, want contents.Meta, size int64, r io.Reader) (string, error) {
	meta, err := k.metaOf(want)
	if err != nil {
		return "", err
	}
	f, err := k.store.Scratch()
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := sparse.Copy(f, io.TeeReader(blob.Reading{Ctx: ctx, Reader: r}, sum))
	if err != nil {
		return "", err
	}
	if n != size {
		return "", fmt.Errorf("got %d bytes, want %d", n, size)
	}
	key := meta.Key([sha256.Size]byte(sum.Sum(nil)), fmt.Sprint("hotfix ", meta.Mtime.Nano()), "")
	path, err := k.store.Put(key, size, func(w *os.File) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if _, err := sparse.Copy(w, f); err != nil {
			return err
		}
		if err := meta.Give(int(w.Fd())); errors.Is(err, unix.ENOTSUP) {
			return hinterr.With(err, "name a directory on a file system with extended attributes: -o DIR")
		} else if err != nil {
			return err
		}
		k.label(w, k.store.Path(key))
		return w.Sync() // a container may need it after a power failure
	})
	if err != nil {
		return "", err
	}
	// Engines mount it read-only, but a process with CAP_SYS_ADMIN can remount it writable in its container.
	if err := k.store.Protect(key); err != nil && !k.noted {
		k.noted = true
		k.p.Note("%s: cannot be made immutable (%v): a container with CAP_SYS_ADMIN can change it for all that mount it", path, err)
	}
	return path, nil
}

// metaOf is the metadata of a container's file as seen from outside.
func (k *copyDir) metaOf(m contents.Meta) (out store.Meta, err error) {
	euid, egid := uint32(os.Geteuid()), uint32(os.Getegid())
	switch {
	case k.e.Rootless:
		if m.UID != 0 || m.GID != 0 {
			return out, hinterr.Errorf(hinterr.ErrUnsupported, "owner %d:%d: in a rootless engine only files of root can be given to a container", m.UID, m.GID)
		}
		m.UID, m.GID = euid, egid
	case euid != 0 && (m.UID+k.e.ShiftUID != euid || m.GID+k.e.ShiftGID != egid):
		return out, hinterr.With(fmt.Errorf("owner %d:%d: %w", m.UID, m.GID, fs.ErrPermission), "run vfix as root, or for a rootless engine with 'podman unshare' or 'nsenter -U --preserve-credentials -t $(cat $XDG_RUNTIME_DIR/docker.pid)', so that the copies can have the owner of the originals")
	default:
		m.UID += k.e.ShiftUID
		m.GID += k.e.ShiftGID
	}
	m.Xattrs = maps.Clone(m.Xattrs)
	delete(m.Xattrs, store.LabelXattr) // of the machine where the image was made
	if raw, ok := m.Xattrs[capabilityXattr]; ok && k.e.ShiftUID != 0 {
		m.Xattrs[capabilityXattr] = namespacedCapability(raw, k.e.ShiftUID)
	}
	mtime := unix.NsecToTimespec(m.Mtime.UnixNano())
	return store.Meta{UID: m.UID, GID: m.GID, Mode: m.Mode, Atime: mtime, Mtime: mtime, Xattrs: m.Xattrs}, nil
}

// capabilityXattr holds a program's capabilities. Its first word has the revision in its
// highest byte; revision 3 is 2 with the uid behind it that is root in the user namespace
// in which they count (linux/capability.h, vfs_ns_cap_data).
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

func (k *copyDir) label(f *os.File, path string) {
	if !store.SELinux() {
		return
	}
	if err := unix.Fsetxattr(int(f.Fd()), store.LabelXattr, []byte(store.SharedLabel), 0); err != nil {
		k.p.Note("%s: SELinux label %s: %v; containers may not read it before: chcon -t container_file_t %s", path, store.SharedLabel, err, path)
	}
}
