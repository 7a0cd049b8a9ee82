// The properties of a file system that vfix relies on, and the file systems that have them.

package rootfs

import "golang.org/x/sys/unix"

// Kind has the properties of a file system. One that is not known has none.
type Kind uint8

const (
	// Stamped: the kernel records each change of a file in its ctime, so that an identity means one content. On an image
	// (squashfs, ISO 9660), or one whose server is a program (FUSE), anybody may have chosen the times; an overlay also
	// shows the times of such layers.
	Stamped Kind = 1 << iota
	// Dated: each change of the names in a directory changes its ctime.
	Dated
	// Certain: all processes find the same files with the same content, and each file is in a directory's list. A server
	// decides by itself whom it gives what; ZFS and Ceph do not list their directories of snapshots; squashfs takes two
	// files of an image with the same number for one.
	Certain
)

// kinds are the file systems by f_type of statfs(2). Those of an overlay depend on its layers.
var kinds = map[int64]Kind{
	unix.EXT4_SUPER_MAGIC: Stamped | Dated | Certain, unix.XFS_SUPER_MAGIC: Stamped | Dated | Certain,
	unix.BTRFS_SUPER_MAGIC: Stamped | Dated | Certain, unix.TMPFS_MAGIC: Stamped | Dated | Certain,
	unix.F2FS_SUPER_MAGIC: Stamped | Certain, bcachefs: Stamped | Certain,
	unix.EROFS_SUPER_MAGIC_V1: Certain, unix.RAMFS_MAGIC: Certain, unix.HUGETLBFS_MAGIC: Certain,
	unix.NFS_SUPER_MAGIC: Stamped, unix.CEPH_SUPER_MAGIC: Stamped, zfs: Stamped, lustre: Stamped, gpfs: Stamped,
}

const zfs, lustre, gpfs, bcachefs = 0x2fc12fc1, 0x0bd00bd0, 0x47504653, 0xca451a4e

// KindOf returns the properties of the file system with the file at a descriptor.
func KindOf(fd int) Kind {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return 0
	}
	return kinds[int64(fs.Type)]
}

// Has reports whether a file system has a property.
func (k Kind) Has(p Kind) bool { return k&p != 0 }

// Stamps is Stamped for a file. direct reports that processes outside of the container may have the files open:
// io_uring can write without a ctime to a page of tmpfs that is one of its registered buffers
// (IORING_REGISTER_BUFFERS).
func Stamps(fd int, direct bool) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && (!direct || fs.Type != unix.TMPFS_MAGIC) && kinds[int64(fs.Type)].Has(Stamped)
}

// Stamps is the function Stamps for the root directory.
func (r *Root) Stamps() bool { return Stamps(r.fd, r.Direct) }

// Has reports whether the root is on a file system with a property.
func (r *Root) Has(p Kind) bool { return r.kind.Has(p) }
