// A root filesystem, whose paths are opened without following symlinks out of it.

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

	"vfix.dev/vfix/internal/nodefile"
	"vfix.dev/vfix/internal/rootpath"
)

// Root is a root filesystem. Paths in it are slash-separated and relative to it, without a leading slash; "" is
// the root itself. A real path has no symlinks.
type Root struct {
	Path string // on this machine, absolute and without symlinks
	// Bare reports that no mount is below the root: it may be walked in a mount of its own (Alone).
	Bare bool
	// Direct reports that processes outside of the container may have its files open: see Stamps.
	Direct bool
	fd     int // O_PATH
	// descriptors is /proc/self/fd, O_PATH: O_PATH descriptors are opened for reading through it.
	descriptors int
	dev         uint64
	kind        Kind
	alone       bool        // in a mount of its own: see Alone
	walk        atomic.Bool // this kernel has no openat2(2): resolve step by step
}

// maxPath is PATH_MAX of linux/limits.h without the final NUL, in bytes.
const maxPath = 4095

// Open opens a root filesystem. Its own path comes from the engine, so symlinks in it are followed.
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

// Of returns the root filesystem at a descriptor, which Close closes. It may have no path on this machine; path is
// its name.
func Of(fd int, path string) (*Root, error) {
	descriptors, err := unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("/proc/self/fd: %w", err)
	}
	r := &Root{Path: path, fd: fd, descriptors: descriptors, kind: KindOf(fd)}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.dev = st.Dev
	return r, nil
}

// Close closes the root.
func (r *Root) Close() {
	unix.Close(r.fd)
	unix.Close(r.descriptors)
}

// Stat returns the status of the root directory.
func (r *Root) Stat() (unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(r.fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	return st, err
}

// Alone returns the root in a mount of its own (Linux 5.12, CAP_SYS_ADMIN), without the mounts below it, which an
// overlay does not show either. No device can be opened in it, so a walk opens files directly, whatever replaces
// them, and reads change no times.
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

// OnFile reports whether the device of a descriptor's file system is a loop device, or is made from one: a
// partition, the devices of btrfs, those of the device mapper. Everybody who can write to the backing file can
// change it.
func OnFile(fd int, device uint64) bool {
	dirs := []string{fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(device), unix.Minor(device))}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.BTRFS_SUPER_MAGIC {
		dirs = btrfsDevices(fd)
	}
	const loop = 7 // Documentation/admin-guide/devices.txt
	return unix.Major(device) == loop || len(dirs) == 0 || slices.ContainsFunc(dirs, onFile)
}

// onFile is OnFile for a block device, by its directory in sysfs.
func onFile(dir string) bool {
	for _, name := range []string{"/loop", "/../loop"} { // of the device, and of the device that has the partition
		if _, err := os.Lstat(dir + name); err == nil {
			return true
		}
	}
	below, _ := filepath.Glob(dir + "/slaves/*")
	return slices.ContainsFunc(below, onFile)
}

// btrfsDevices returns the sysfs directories of the devices of a btrfs; nil if they are not known.
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

// askBtrfs makes an ioctl of btrfs on the file at a descriptor, which may be O_PATH.
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

// Subvolume returns the ID of the btrfs subvolume with the file at a descriptor, "" on other file systems. A
// snapshot has the inode numbers and dates of its origin, and may get the device number of a removed subvolume,
// but its ID is unique.
func Subvolume(fd int) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.BTRFS_SUPER_MAGIC {
		return "", err
	}
	const call, uuid = 0x81f8943c, 296 // BTRFS_IOC_GET_SUBVOL_INFO (Linux 4.18), the offset of uuid
	info, err := askBtrfs(fd, call)
	return fmt.Sprintf("%x", info[uuid:uuid+16]), err
}

// Subvolume is the function Subvolume for the root directory.
func (r *Root) Subvolume() (string, error) { return Subvolume(r.fd) }

// Within reports whether a file of a walk is in the root's own subvolume: others have their own device numbers.
func (r *Root) Within(device uint64) bool { return device == r.dev }

// OnFile is the function OnFile for the root directory.
func (r *Root) OnFile() bool { return OnFile(r.fd, r.dev) }

// openReal opens a real path: for a symlink anywhere in it, the error is ELOOP or ENOTDIR. oneFS refuses paths in
// other mounts, with EXDEV.
func (r *Root) openReal(name string, flags int, oneFS bool) (int, error) {
	return r.openAt(r.fd, name, flags, oneFS)
}

// openAt is openReal relative to the directory at a descriptor.
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
		// EPERM: seccomp filters from before Linux 5.6 return it.
		if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
			return fd, err
		}
		r.walk.Store(true)
	}
	return r.openStepwise(dir, name, flags, oneFS)
}

// openStepwise is openAt for kernels before 5.6: it opens one component after the other, each relative to the
// previous descriptor.
func (r *Root) openStepwise(dir int, name string, flags int, oneFS bool) (int, error) {
	parts := strings.Split(name, "/")
	if slices.Contains(parts, "..") || slices.Contains(parts, "") {
		return -1, unix.EXDEV
	}
	at := dir
	for i, part := range parts {
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

// sameMount returns EXDEV for a file in another mount than the root.
func (r *Root) sameMount(fd int) error {
	is, err := MountOf(fd)
	own, oerr := MountOf(r.fd)
	if err = errors.Join(err, oerr); err == nil && is != own {
		err = unix.EXDEV
	}
	return err
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

// Resolve is rootpath.Resolve in the root: it returns the real path of a file, or the path at which it would be
// created.
func (r *Root) Resolve(name string) (string, error) { return rootpath.Resolve(name, r.readlink) }

// readlink reads the symlink at a path whose directory is real.
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

// OpenDir opens the directory at a real path, for the *at system calls; the caller closes it.
func (r *Root) OpenDir(name string) (int, error) {
	return r.openReal(name, unix.O_RDONLY|unix.O_DIRECTORY, false)
}

// Name opens a real path with O_PATH; the caller closes it.
func (r *Root) Name(name string) (int, error) { return r.openReal(name, unix.O_PATH, false) }

// MountOf returns the ID in mountinfo of the mount of an open descriptor.
func MountOf(fd int) (int, error) {
	id, err := Fdinfo("/proc/self/fdinfo/"+strconv.Itoa(fd), "mnt_id")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(id)
}

// Fdinfo returns a field of the kernel's information about a descriptor (proc_pid_fdinfo(5)).
func Fdinfo(file, member string) (string, error) {
	b, err := nodefile.Text(file)
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
	r.sync(fd, []byte{0}, unix.AT_EMPTY_PATH)
	err = unix.Fstat(fd, &st)
	return st, err
}
