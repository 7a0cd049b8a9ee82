// A root filesystem, whose paths are opened without following a symlink out of it.

package rootfs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/rootpath"
)

// Root is a root filesystem. Paths in it are slash-separated, relative to it and begin with
// no slash; "" is the root itself. A real path is one without symlinks.
type Root struct {
	Path string // on this machine, absolute and without symlinks
	// Bare says that nothing is mounted below the root: it may be walked in a mount of its own (Alone).
	Bare bool
	// Direct says that others may have its files open: see Stamps.
	Direct bool
	fd     int // O_PATH
	// descriptors is /proc/self/fd, O_PATH: what is opened by a mere name is opened to be read there.
	descriptors int
	dev         uint64
	dated       bool        // see Dated
	alone       bool        // in a mount of its own: see Alone
	walk        atomic.Bool // this kernel has no openat2(2): resolve step by step
}

// maxPath is PATH_MAX of linux/limits.h without the final NUL, in bytes.
const maxPath = 4095

// Open opens a root filesystem. Its own path comes from the engine: symlinks in it are followed as in any
// other path.
func Open(name string) (*Root, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	fd, err := unix.Open(real, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", real, err)
	}
	return Of(fd, real)
}

// Of is the root filesystem that is open at a descriptor, which the root closes. It need not have a path on
// this machine; path is its name.
func Of(fd int, path string) (*Root, error) {
	r := &Root{Path: path, fd: fd, descriptors: -1}
	var err error
	if r.descriptors, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		r.Close()
		return nil, fmt.Errorf("/proc/self/fd: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.dev = st.Dev
	var fs unix.Statfs_t
	r.dated = unix.Fstatfs(fd, &fs) == nil && slices.Contains([]int64{
		unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC,
	}, int64(fs.Type))
	return r, nil
}

// Close ends the use of the root.
func (r *Root) Close() {
	unix.Close(r.fd)
	unix.Close(r.descriptors)
}

// Stat is of the root itself.
func (r *Root) Stat() (unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(r.fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	return st, err
}

// Dated reports whether the root is on a file system that dates each change to a folder's names by the
// folder's ctime, for certain: one of the usual ones of a disk or of memory.
func (r *Root) Dated() bool { return r.dated }

// Alone is the root in a mount that nobody else sees (Linux 5.12, CAP_SYS_ADMIN): without what is mounted below it, which an
// overlay does not show either. No device can be opened in it, so that a walk opens files at once, whatever takes their
// place, and reading changes no times.
func (r *Root) Alone() (*Root, error) {
	tree, err := unix.OpenTree(r.fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, fmt.Errorf("%s: open_tree: %w", r.Path, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(tree)
		return nil, fmt.Errorf("%s: mount_setattr: %w", r.Path, err)
	}
	own, err := Of(tree, r.Path)
	if err == nil {
		own.alone = true
	}
	return own, err
}

// Stamps reports whether what is open at a descriptor is on a file system whose kernel dates each change of a file by the
// ctime: then an identity means one content. On one that is an image (squashfs, ISO 9660), or whose server is a program (FUSE),
// somebody else chose the times; an overlay also shows the times of such ones.
//
// direct says that others may have its files open, and not the container alone: a page of tmpfs is written to without a date
// that is a buffer of io_uring (IORING_REGISTER_BUFFERS), as long as that lives.
func Stamps(fd int, direct bool) bool {
	const zfs, lustre, gpfs, bcachefs = 0x2fc12fc1, 0x0bd00bd0, 0x47504653, 0xca451a4e
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && (!direct || fs.Type != unix.TMPFS_MAGIC) && slices.Contains([]int64{
		unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.NFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, zfs, lustre, gpfs, bcachefs,
	}, int64(fs.Type))
}

// Stamps is Stamps of the root itself.
func (r *Root) Stamps() bool { return Stamps(r.fd, r.Direct) }

// OnFile reports whether the file system of what is open at a descriptor, of a device, is on a loop device, or on one that is
// made of such: a partition, btrfs's own devices, those of the device mapper. Anybody may change it who can write to the file.
func OnFile(fd int, device uint64) bool {
	dirs := []string{fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(device), unix.Minor(device))}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.BTRFS_SUPER_MAGIC {
		dirs = btrfsDevices(fd)
	}
	const loop = 7 // Documentation/admin-guide/devices.txt
	return unix.Major(device) == loop || len(dirs) == 0 || slices.ContainsFunc(dirs, onFile)
}

// onFile is OnFile of a block device by its directory of sysfs.
func onFile(dir string) bool {
	for _, name := range []string{"/loop", "/../loop"} { // of the device, and of the one that a partition is of
		if _, err := os.Lstat(dir + name); err == nil {
			return true
		}
	}
	below, _ := filepath.Glob(dir + "/slaves/*")
	return slices.ContainsFunc(below, onFile)
}

// btrfsDevices are the directories of sysfs of the devices that a btrfs is on; nil if they are not known.
func btrfsDevices(fd int) (dirs []string) {
	const call = 0x8400941f // BTRFS_IOC_FS_INFO (linux/btrfs.h), with the id of the file system at 16
	info, err := askBtrfs(fd, call)
	if err != nil {
		return nil
	}
	id := info[16:32]
	dirs, _ = filepath.Glob(fmt.Sprintf("/sys/fs/btrfs/%x-%x-%x-%x-%x/devices/*", id[:4], id[4:6], id[6:8], id[8:10], id[10:]))
	return dirs
}

// askBtrfs makes a call of btrfs for what is open at a descriptor, which may be a mere name.
func askBtrfs(fd int, call uintptr) (answer [1024]byte, err error) {
	f, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return answer, err
	}
	defer f.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), call, uintptr(unsafe.Pointer(&answer[0]))); errno != 0 {
		err = errno
	}
	return answer, err
}

// Subvolume is the id of the subvolume of btrfs that what is open at a descriptor is in, "" elsewhere. A snapshot gets the
// inode numbers and dates of its origin, and may get the device number of a subvolume that is gone: its id is its own.
func Subvolume(fd int) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.BTRFS_SUPER_MAGIC {
		return "", err
	}
	const call, uuid = 0x81f8943c, 296 // BTRFS_IOC_GET_SUBVOL_INFO (Linux 4.18), the offset of uuid
	info, err := askBtrfs(fd, call)
	return fmt.Sprintf("%x", info[uuid:uuid+16]), err
}

// Subvolume is Subvolume of the root itself.
func (r *Root) Subvolume() (string, error) { return Subvolume(r.fd) }

// Within reports whether a file that a walk finds is in the root's own subvolume: others have device numbers of their own.
func (r *Root) Within(device uint64) bool { return device == r.dev }

// OnFile is OnFile of the root itself.
func (r *Root) OnFile() bool { return OnFile(r.fd, r.dev) }

// openReal opens a real path: a symlink anywhere in it is ELOOP or ENOTDIR, never followed. oneFS refuses,
// with EXDEV, paths in another mount.
func (r *Root) openReal(name string, flags int, oneFS bool) (int, error) {
	return r.openAt(r.fd, name, flags, oneFS)
}

// openAt is openReal from the folder at a descriptor.
func (r *Root) openAt(dir int, name string, flags int, oneFS bool) (int, error) {
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	name = cmp.Or(name, ".")
	if !r.walk.Load() {
		how := unix.OpenHow{
			Flags:   uint64(flags),
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		}
		if oneFS {
			how.Resolve |= unix.RESOLVE_NO_XDEV
		}
		fd, err := retry(func() (int, error) { return unix.Openat2(dir, name, &how) })
		// EPERM: seccomp filters of before Linux 5.6 answer so.
		if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
			return fd, err
		}
		r.walk.Store(true)
	}
	return r.openStepwise(dir, name, flags, oneFS)
}

// openStepwise is openAt for kernels before 5.6: one component at a time, each from the
// descriptor of the last.
func (r *Root) openStepwise(dir int, name string, flags int, oneFS bool) (int, error) {
	parts := strings.Split(name, "/")
	at := dir
	for i, part := range parts {
		if part == ".." || part == "" || strings.HasPrefix(name, "/") {
			return -1, unix.EXDEV
		}
		how := unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		if i == len(parts)-1 {
			how = flags
		}
		fd, err := retry(func() (int, error) { return unix.Openat(at, part, how, 0) })
		if at != dir {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = fd
		if oneFS {
			var st unix.Stat_t
			err := unix.Fstat(at, &st)
			if err == nil && st.Dev != r.dev && st.Mode&unix.S_IFMT == unix.S_IFDIR { // or a subvolume of btrfs
				err = r.sameMount(at)
			}
			if err != nil {
				unix.Close(at)
				return -1, err
			}
		}
	}
	return at, nil
}

// sameMount is EXDEV for what is in another mount than the root.
func (r *Root) sameMount(fd int) error {
	is, err := MountOf(fd)
	own, oerr := MountOf(r.fd)
	if err == nil && oerr == nil && is != own {
		err = unix.EXDEV
	}
	return errors.Join(err, oerr)
}

// retry repeats a call that was interrupted by a signal, or by a concurrent rename (EAGAIN of openat2).
func retry(open func() (int, error)) (int, error) {
	const tries = 100
	for n := 0; ; n++ {
		fd, err := open()
		if n < tries && (errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN)) {
			continue
		}
		return fd, err
	}
}

// Resolve is rootpath.Resolve in the root: where something is, or would be made.
func (r *Root) Resolve(name string) (string, error) { return rootpath.Resolve(name, r.readlink) }

// readlink reads the symlink at a path whose folder is real.
func (r *Root) readlink(name string) (string, error) {
	fd, err := r.openReal(name, unix.O_PATH, false)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", rootpath.ErrNoLink
	}
	buf := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Folder opens the folder at a real path, for the *at system calls; the caller closes it.
func (r *Root) Folder(name string) (int, error) {
	return r.openReal(name, unix.O_RDONLY|unix.O_DIRECTORY, false)
}

// Name opens what is at a real path as a mere name (O_PATH); the caller closes it.
func (r *Root) Name(name string) (int, error) { return r.openReal(name, unix.O_PATH, false) }

// MountOf is the number in mountinfo of the mount of an open descriptor.
func MountOf(fd int) (int, error) {
	id, err := Fdinfo("/proc/self/fdinfo/"+strconv.Itoa(fd), "mnt_id")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(id)
}

// Fdinfo is a field of the kernel's information about a descriptor (proc_pid_fdinfo(5)).
func Fdinfo(file, member string) (string, error) {
	b, err := os.ReadFile(file)
	_, text, ok := strings.Cut("\n"+string(b), "\n"+member+":")
	if err == nil && !ok {
		err = fmt.Errorf("%s: no %s", file, member)
	}
	text, _, _ = strings.Cut(text, "\n")
	return strings.TrimSpace(text), err
}

// Lstat is lstat(2) of the file at a real path.
func (r *Root) Lstat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := r.openReal(name, unix.O_PATH, false)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	err = unix.Fstat(fd, &st)
	return st, err
}
