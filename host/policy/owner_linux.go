// Whose a file is, and the lock of a folder.

package policy

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownedAlone errs unless a folder and a file in it belong to this user, nobody else can write to them, and nobody
// else can read the file.
func ownedAlone(dir string, file fs.FileInfo) error {
	folder, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	const othersWrite, others = 0o022, 0o077
	for fi, denied := range map[fs.FileInfo]fs.FileMode{folder: othersWrite, file: others} {
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok || int(st.Uid) != os.Geteuid() || fi.Mode()&denied != 0 || !fi.IsDir() && !fi.Mode().IsRegular() {
			return fmt.Errorf("%s/%s: %s: mode %v, owner not user %d alone", dir, file.Name(), fi.Name(), fi.Mode(), os.Geteuid())
		}
	}
	return nil
}

// lock locks a folder until the function that it returns is called. It does not wait: a process that has it may be
// stopped.
func lock(dir string) (func(), error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Close()
		return nil, fmt.Errorf("%s: lock: %w", dir, err)
	}
	return func() { d.Close() }, nil
}
