// The system calls that a walk makes thousands of times.

package rootfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// call makes a system call. On the usual file systems on disks and in memory it does not notify Go's scheduler:
// most calls are answered from memory, and the notification causes 10,000 thread switches in a walk of 20,000
// files. On others (FUSE, network file systems) a call may block forever, and Go's processor must do other work
// meanwhile.
//
//go:uintptrescapes
func (r *Root) call(number, a, b, c, d uintptr) (int, error) {
	made := unix.Syscall6
	if r.Has(Dated) {
		made = unix.RawSyscall6
	}
	n, _, errno := made(number, a, b, c, d, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// openat is openat(2) of a NUL-terminated name; lstatat is fstatat(2) of one, without following symlinks.
func (r *Root) openat(dir int, name []byte, flags int) (int, error) {
	return r.call(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&name[0])), uintptr(flags), 0)
}

func (r *Root) lstatat(dir int, name []byte, st *unix.Stat_t) error {
	r.sync(dir, name, unix.AT_SYMLINK_NOFOLLOW)
	_, err := r.call(unix.SYS_NEWFSTATAT, uintptr(dir), uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(st)), unix.AT_SYMLINK_NOFOLLOW)
	return err
}

// sync has a network file system ask its server for the status of a file, or of a directory, whose list it then reads
// again if that has changed: NFS believes an older answer for a minute (nfs(5), actimeo).
func (r *Root) sync(at int, name []byte, flags uintptr) {
	if r.Has(Dated) {
		return
	}
	var st unix.Statx_t
	_, _, _ = unix.Syscall6(unix.SYS_STATX, uintptr(at), uintptr(unsafe.Pointer(&name[0])), flags|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, uintptr(unsafe.Pointer(&st)), 0)
}

func (r *Root) fstat(fd int, st *unix.Stat_t) error {
	_, err := r.call(unix.SYS_FSTAT, uintptr(fd), uintptr(unsafe.Pointer(st)), 0, 0)
	return err
}

func (r *Root) close(fd int) { _, _ = r.call(unix.SYS_CLOSE, uintptr(fd), 0, 0, 0) }

func (r *Root) getdents(fd int, buf []byte) (int, error) {
	return r.call(unix.SYS_GETDENTS64, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0)
}

func (r *Root) pread(fd int, b []byte, off int64) (int, error) {
	return r.call(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(off))
}
