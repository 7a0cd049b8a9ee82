//go:build linux

// Devices, fifos and extended attributes of files that are unpacked.

package source

import (
	"archive/tar"
	"errors"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// nodeTypes are the types of files that mknod(2) makes.
var nodeTypes = map[byte]uint32{tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK, tar.TypeFifo: unix.S_IFIFO}

// makeNode makes a device or fifo; false if the caller may not.
func makeNode(root *os.Root, name string, h *tar.Header) (bool, error) {
	kind, ok := nodeTypes[h.Typeflag]
	if !ok {
		return false, nil
	}
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return false, err
	}
	defer dir.Close()
	const private = 0o600
	err = unix.Mknodat(int(dir.Fd()), path.Base(name), kind|private, int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
	if errors.Is(err, unix.EPERM) {
		return false, nil
	}
	return err == nil, err
}

// setLinkTime sets the time of a symlink itself.
func setLinkTime(root *os.Root, name string, t time.Time) error {
	dir, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	at := unix.NsecToTimespec(t.UnixNano())
	return unix.UtimesNanoAt(int(dir.Fd()), path.Base(name), []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}

func setXattr(f *os.File, name, value string) error {
	return unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
}
