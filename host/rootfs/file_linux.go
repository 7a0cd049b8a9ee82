// Files of a root filesystem, and the identity that shows whether a file has changed.

package rootfs

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Identity is the part of stat(2) that changes with the content of a file; times are in nanoseconds. Only root can
// change a ctime, by setting the machine's clock.
type Identity struct {
	Dev, Ino           uint64
	Size, Mtime, Ctime int64
}

// IdentityOf returns the identity of a file.
func IdentityOf(st *unix.Stat_t) Identity {
	return Identity{Dev: st.Dev, Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
}

// SameFile reports whether one identity is that of a file in a layer, and the other that of the same file in an
// overlay, which has another device, and may have the layer's number in the upper half of the inode's number
// (fs/overlayfs/inode.c, ovl_map_dev_ino).
func (a Identity) SameFile(b Identity) bool {
	return uint32(a.Ino) == uint32(b.Ino) && a.Size == b.Size && a.Mtime == b.Mtime && a.Ctime == b.Ctime
}

// Settled is the age of a change after which an identity identifies the content of a file: the clock of a file
// system advances in ticks of up to 10 ms, and two changes within one tick have the same time. A file system that
// counts whole seconds (ext4 with inodes of 128 bytes) needs one second more.
const Settled = 100 * time.Millisecond

// Unsettled reports whether a file changed so recently that it may change again and keep its identity.
func (a Identity) Unsettled(now time.Time) bool {
	tick := time.Duration(0)
	if a.Ctime%int64(time.Second) == 0 {
		tick = time.Second
	}
	return now.Sub(time.Unix(0, a.Ctime)) < tick+Settled
}

// ErrNotRegular reports that a path is not a regular file.
var ErrNotRegular = errors.New("not a regular file")

// ErrChanged reports that a file changed while it was read.
var ErrChanged = errors.New("changed while it was read")

// File is a regular file of a root, open for reading.
type File struct {
	Stat unix.Stat_t // from when it was opened
	fd   int
	r    *Root
}

// OpenFile opens the regular file at a real path. It never opens other files (a fifo, a device), even if one
// replaces the file at that very moment: it opens the path with O_PATH first, and reads through that descriptor.
func (r *Root) OpenFile(name string) (*File, error) {
	return r.open(func() (int, error) { return r.openReal(name, unix.O_PATH, false) })
}

// FileOf opens the regular file of an O_PATH descriptor, which stays open.
func (r *Root) FileOf(name int) (*File, error) {
	return r.open(func() (int, error) { return unix.Dup(name) })
}

// open opens a regular file; path returns an O_PATH descriptor of it.
func (r *Root) open(path func() (int, error)) (*File, error) {
	at, err := retry(path)
	if err != nil {
		return nil, err
	}
	f := &File{fd: at, r: r}
	defer f.Close() // the O_PATH descriptor
	if err := f.regular(); err != nil {
		return nil, err
	}
	g := *f
	name := strconv.AppendInt(make([]byte, 0, 16), int64(at), 10)
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	g.fd, err = retry(func() (int, error) { return r.openat(r.descriptors, append(name, 0), flags) })
	if err != nil {
		return nil, err
	}
	return &g, nil
}

// regular checks that an open file is regular.
func (f *File) regular() error {
	if err := f.r.fstat(f.fd, &f.Stat); err != nil {
		return err
	}
	if f.Stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrNotRegular
	}
	return nil
}

// Close closes the file.
func (f *File) Close() { f.r.close(f.fd) }

// FD returns the descriptor, which is open for reading.
func (f *File) FD() int { return f.fd }

// ID returns the identity that the file had when it was opened.
func (f *File) ID() Identity { return IdentityOf(&f.Stat) }

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) {
		k, err := f.r.pread(f.fd, b[n:], off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return n, err
		case k == 0:
			return n, io.EOF
		default:
			n += k
		}
	}
	return n, nil
}

// Dates reports whether each later change of the content changes the file's times: a file that is mapped for
// writing can change without a trace. The kernel grants a read lease only while nobody has the file open for
// writing (fcntl(2)); NFS has no leases, but writes mapped data to the server before it returns the times.
func (f *File) Dates() bool {
	_, err := unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_UNLCK)
	}
	var fs unix.Statfs_t
	return err == nil || errors.Is(err, unix.EINVAL) && unix.Fstatfs(f.fd, &fs) == nil && fs.Type == unix.NFS_SUPER_MAGIC
}

// Unchanged returns nil if the file has not changed since it was opened. All data read before the call then belong
// to the same content.
func (f *File) Unchanged() error {
	var st unix.Stat_t
	if err := f.r.fstat(f.fd, &st); err != nil {
		return err
	}
	if now := IdentityOf(&st); now != f.ID() {
		return fmt.Errorf("%w: %d bytes, then %d", ErrChanged, f.Stat.Size, st.Size)
	}
	return nil
}

// Sparse reports whether more than half of the file is holes.
func (f *File) Sparse() bool {
	const blockSize = 512 // bytes in a unit of st_blocks, stat(2)
	return f.Stat.Blocks*blockSize < f.Stat.Size/2
}
