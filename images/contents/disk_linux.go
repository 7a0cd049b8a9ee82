// The file systems of the kernel itself.

package contents

import (
	"os"

	"golang.org/x/sys/unix"
)

// specialFS are the file systems whose files come from the kernel. Source: linux/magic.h; devtmpfs counts as tmpfs
// there, and has no regular files.
var specialFS = map[int64]bool{
	unix.PROC_SUPER_MAGIC: true, unix.SYSFS_MAGIC: true, unix.DEVPTS_SUPER_MAGIC: true,
	unix.CGROUP_SUPER_MAGIC: true, unix.CGROUP2_SUPER_MAGIC: true, unix.DEBUGFS_MAGIC: true,
	unix.TRACEFS_MAGIC: true, unix.SECURITYFS_MAGIC: true, unix.BPF_FS_MAGIC: true,
	unix.PSTOREFS_MAGIC: true, unix.EFIVARFS_MAGIC: true, unix.SELINUX_MAGIC: true,
	unix.NSFS_MAGIC: true, unix.BINFMTFS_MAGIC: true, unix.HUGETLBFS_MAGIC: true,
}

// Special reports whether an open directory is on a special file system.
func Special(dir *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(dir.Fd()), &st) == nil && specialFS[int64(st.Type)]
}
