// The owner of a file.

package policy

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"vfix.dev/vfix/internal/hinterr"
)

// ownedAlone errs unless a directory and a file in it belong to this user, nobody else can write to them, and nobody
// else can read the file.
func ownedAlone(dir string, file fs.FileInfo) error {
	directory, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	const othersWrite, others = 0o022, 0o077
	for fi, denied := range map[fs.FileInfo]fs.FileMode{directory: othersWrite, file: others} {
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok || int(st.Uid) != os.Geteuid() || fi.Mode()&denied != 0 || !fi.IsDir() && !fi.Mode().IsRegular() {
			return fmt.Errorf("%s/%s: %s: mode %v, owner not user %d alone", dir, file.Name(), fi.Name(), fi.Mode(), os.Geteuid())
		}
	}
	return nil
}

// rootsAlone errs if this process is root and others than root can write to a file: they would decide.
func rootsAlone(path string) error {
	if Rootless() {
		return nil
	}
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	const groupWrite, othersWrite = 0o020, 0o002
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || st.Uid != 0 || fi.Mode()&othersWrite != 0 || fi.Mode()&groupWrite != 0 && st.Gid != 0 {
		return hinterr.With(fmt.Errorf("%s: others than root can write to it (mode %v, owner %d, group %d)", path, fi.Mode(), st.Uid, st.Gid),
			"chown root:root %s && chmod 644 %[1]s", path)
	}
	return nil
}
