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

// Identity is the part of stat(2) that changes when the content of a file does: times in
// nanoseconds. Nobody but root can set a ctime, and root only by the machine's clock.
type Identity struct {
	Dev, Ino           uint64
	Size, Mtime, Ctime int64
}

// IdentityOf is the identity of a file.
func IdentityOf(st *unix.Stat_t) Identity {
	return Identity{Dev: st.Dev, Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
}

// SameFile reports whether an overlay shows, as one of these, the file of a layer that is the other: its device
// is another, and of the inode's number the upper half may be the layer's (fs/overlayfs/inode.c,
// ovl_map_dev_ino).
func (a Identity) SameFile(b Identity) bool {
	return uint32(a.Ino) == uint32(b.Ino) && a.Size == b.Size && a.Mtime == b.Mtime && a.Ctime == b.Ctime
}

// Settled is how long ago a file must have changed for its identity to identify its content: the clock of a
// file system advances in ticks of up to 10 ms, and two changes within one look the same. A file system that
// counts whole seconds (ext4 with inodes of 128 bytes) needs one more.
const Settled = 100 * time.Millisecond

// Unsettled reports whether a file that changed so recently may change again and keep its identity.
func (a Identity) Unsettled(now time.Time) bool {
	tick := time.Duration(0)
	if a.Ctime%int64(time.Second) == 0 {
		tick = time.Second
	}
	return now.Sub(time.Unix(0, a.Ctime)) < tick+Settled
}

// ErrNotRegular: the path names something other than a regular file.
var ErrNotRegular = errors.New("no regular file")

// ErrChanged: a file changed while it was read.
var ErrChanged = errors.New("changed while it was read")

// File is a regular file of a root, open to be read.
type File struct {
	Stat unix.Stat_t // as it was when it was opened
	fd   int
	r    *Root
}

// OpenFile opens the regular file at a real path. Any other file (a fifo, a device)
// is never opened, not even if it takes a file's place at that very moment: the path is
// opened as a mere name first, and read through that name.
func (r *Root) OpenFile(name string) (*File, error) {
	return r.open(func() (int, error) { return r.openReal(name, unix.O_PATH, false) })
}

// FileOf opens the regular file that is open as a mere name (O_PATH) at a descriptor, which stays open.
func (r *Root) FileOf(name int) (*File, error) {
	return r.open(func() (int, error) { return unix.Dup(name) })
}

// open opens a regular file with a function that opens its name.
func (r *Root) open(path func() (int, error)) (*File, error) {
	at, err := retry(path)
	if err != nil {
		return nil, err
	}
	f := &File{fd: at, r: r}
	defer f.Close() // the name
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

// regular checks an open file.
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

// FD is the descriptor, open for reading.
func (f *File) FD() int { return f.fd }

// ID is the identity that the file had when it was opened.
func (f *File) ID() Identity { return IdentityOf(&f.Stat) }

// ReadAt is of io.ReaderAt.
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

// Dates reports whether each later change of the file's content moves its times: a file that is mapped for
// writing can change without a trace. A lease to read is given only while nobody has the file open to write
// (fcntl(2)); NFS has no leases, but writes mapped data to the server before it returns the times.
func (f *File) Dates() bool {
	_, err := unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(f.fd), unix.F_SETLEASE, unix.F_UNLCK)
	}
	var fs unix.Statfs_t
	return err == nil || errors.Is(err, unix.EINVAL) && unix.Fstatfs(f.fd, &fs) == nil && fs.Type == unix.NFS_SUPER_MAGIC
}

// Unchanged is nil if the file is still what it was when it was opened. All data read before the call then
// belong to the same content.
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
