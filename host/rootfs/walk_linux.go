// The walk over the regular files of a root filesystem.

package rootfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Entry is a name of a regular file that a walk comes by. It is valid while the visitor looks
// at it, but for what Name returns.
type Entry struct {
	Base   []byte // the last part of the name
	Stat   unix.Stat_t
	folder []byte
}

// Name is the real path.
func (e *Entry) Name() string { return join(e.folder, e.Base) }

// Visitor gets what a walk finds.
type Visitor struct {
	// File is called for each name of a regular file. Errors end the walk.
	File func(e *Entry) error
	// Passed is called for each folder that cannot be looked into.
	Passed func(name string, err error)
	// Seen, if not nil, is called for each name of a file or folder first. Errors end the walk.
	Seen func() error
}

// Walk visits the regular files of the root, each by its real path, in an order that is the
// same while no folder changes. Symlinks are not followed: what they lead to is visited
// where it is. Other mounts below the root are not entered.
//
// It goes down by descriptors, one a level, and keeps one part of each folder's names: what it
// takes grows with the depth and not with the number of folders.
func (r *Root) Walk(v Visitor) error {
	w := walker{r: r, v: v, buf: make([]byte, direntBuffer)}
	fd, err := r.openReal("", unix.O_RDONLY|unix.O_DIRECTORY, true)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	return w.folder(fd)
}

// direntBuffer is how much of a folder getdents64 returns at once, in bytes.
const direntBuffer = 32 << 10

type walker struct {
	r    *Root
	v    Visitor
	path []byte // of the folder that is being visited
	buf  []byte
	now  Entry
}

// folder visits what is in the folder at fd, and closes it.
func (w *walker) folder(fd int) error {
	defer unix.Close(fd)
	var below []byte // names of folders, each ended by a NUL
	for {
		n, err := getdents(fd, w.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			if len(w.path) == 0 {
				return fmt.Errorf("%s: %w", w.r.Path, err)
			}
			w.v.Passed(string(w.path), err)
			return nil
		}
		if n <= 0 {
			return nil
		}
		if below, err = w.entries(fd, w.buf[:n], below[:0]); err != nil {
			return err
		}
		for rest := below; len(rest) > 0; {
			end := bytes.IndexByte(rest, 0)
			if err := w.enter(fd, rest[:end]); err != nil {
				return err
			}
			rest = rest[end+1:]
		}
	}
}

// enter visits a folder of the folder at fd.
func (w *walker) enter(fd int, name []byte) error {
	above := len(w.path)
	defer func() { w.path = w.path[:above] }()
	if above > 0 {
		w.path = append(w.path, '/')
	}
	w.path = append(w.path, name...)
	below, err := w.r.openAt(fd, string(name), unix.O_RDONLY|unix.O_DIRECTORY, true)
	switch {
	case errors.Is(err, unix.EXDEV): // another mount
		return nil
	case err != nil:
		w.v.Passed(string(w.path), err)
		return nil
	}
	return w.folder(below)
}

// The layout of struct linux_dirent64 (include/linux/dirent.h): d_ino, d_off, d_reclen,
// d_type, d_name.
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

// entries goes through what getdents64 returned for the folder at fd, and appends the names of
// its folders to below.
func (w *walker) entries(fd int, b, below []byte) ([]byte, error) {
	for len(b) > direntName {
		n := int(binary.NativeEndian.Uint16(b[direntReclen:]))
		if n <= direntName || n > len(b) {
			return below, fmt.Errorf("%s: directory entry of %d bytes", w.path, n)
		}
		typ, raw := b[direntType], b[direntName:n]
		b = b[n:]
		end := bytes.IndexByte(raw, 0)
		if end < 0 {
			return below, fmt.Errorf("%s: directory entry without an end", w.path)
		}
		base := raw[:end]
		if typ != unix.DT_REG && typ != unix.DT_DIR && typ != unix.DT_UNKNOWN ||
			string(base) == "." || string(base) == ".." {
			continue
		}
		if w.v.Seen != nil {
			if err := w.v.Seen(); err != nil {
				return below, err
			}
		}
		var err error
		if below, err = w.entry(fd, raw[:end+1], typ, below); err != nil {
			return below, err
		}
	}
	return below, nil
}

// entry looks at one name, which ends in a NUL.
func (w *walker) entry(fd int, raw []byte, typ byte, below []byte) ([]byte, error) {
	e := &w.now
	e.folder, e.Base = w.path, raw[:len(raw)-1]
	if len(w.r.Path)+len(w.path)+len(raw)+1 > maxPath {
		const shown = 60 // bytes of a name that nobody can read whole
		name := e.Name()
		w.v.Passed(name[:min(len(name), shown)]+"…", unix.ENAMETOOLONG)
		return below, nil
	}
	if typ == unix.DT_DIR {
		return append(below, raw...), nil
	}
	if err := lstatat(fd, raw, &e.Stat); err != nil {
		if !errors.Is(err, unix.ENOENT) { // gone since
			w.v.Passed(e.Name(), err)
		}
		return below, nil
	}
	switch e.Stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return append(below, raw...), nil
	case unix.S_IFREG:
		return below, w.v.File(e)
	}
	return below, nil
}

func join(folder, base []byte) string {
	if len(folder) == 0 {
		return string(base)
	}
	return string(folder) + "/" + string(base)
}

// Two system calls without Go's ceremony around what may block: a walk makes thousands, most
// are answered from memory, and the program has nothing else to do meanwhile.

// lstatat is fstatat(2) of a NUL-terminated name, symlinks not followed.
func lstatat(fd int, name []byte, st *unix.Stat_t) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_NEWFSTATAT, uintptr(fd), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// getdents is getdents64(2).
func getdents(fd int, buf []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_GETDENTS64, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
