package rootfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxEntries is how many names a root may have: far above any image, and a bound for the
// memory and time that a hostile one can take.
const maxEntries = 8 << 20

// Entry is a name of a regular file that a walk comes by. It is valid while the visitor looks
// at it, but for what Name returns.
type Entry struct {
	Base   []byte // the last part of the name
	Stat   unix.Stat_t
	folder string
}

// Name is the real path.
func (e *Entry) Name() string { return join(e.folder, string(e.Base)) }

// Visitor gets what a walk finds.
type Visitor struct {
	// File is called for each name of a regular file. Errors end the walk.
	File func(e *Entry) error
	// Passed is called for each folder that cannot be looked into.
	Passed func(name string, err error)
}

// Walk visits the regular files of the root, each by its real path, in an order that is the
// same while no folder changes. Symlinks are not followed: what they lead to is visited
// where it is. Other mounts below the root are not entered.
func (r *Root) Walk(v Visitor) error {
	w := walker{r: r, v: v, buf: make([]byte, direntBuffer)}
	w.todo = append(w.todo, "")
	for len(w.todo) > 0 {
		name := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if err := w.folder(name); err != nil {
			return err
		}
	}
	return nil
}

// direntBuffer is how much of a folder getdents64 returns at once, in bytes.
const direntBuffer = 64 << 10

type walker struct {
	r    *Root
	v    Visitor
	todo []string // folders
	buf  []byte
	seen int
	now  Entry
}

func (w *walker) folder(name string) error {
	fd, err := w.r.openReal(name, unix.O_RDONLY|unix.O_DIRECTORY, true)
	if errors.Is(err, unix.EXDEV) && name != "" {
		return nil // another mount
	}
	if err != nil {
		return w.passed(name, err)
	}
	defer unix.Close(fd)
	for {
		n, err := getdents(fd, w.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return w.passed(name, err)
		}
		if n <= 0 {
			return nil
		}
		if err := w.entries(fd, name, w.buf[:n]); err != nil {
			return err
		}
	}
}

func (w *walker) passed(name string, err error) error {
	if name == "" {
		return fmt.Errorf("%s: %w", w.r.Path, err)
	}
	w.v.Passed(name, err)
	return nil
}

// The layout of struct linux_dirent64 (include/linux/dirent.h): d_ino, d_off, d_reclen,
// d_type, d_name.
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

// entries goes through what getdents64 returned for the folder at fd.
func (w *walker) entries(fd int, folder string, b []byte) error {
	for len(b) > direntName {
		n := int(binary.NativeEndian.Uint16(b[direntReclen:]))
		if n <= direntName || n > len(b) {
			return fmt.Errorf("%s: folder entry of %d bytes", folder, n)
		}
		typ, raw := b[direntType], b[direntName:n]
		b = b[n:]
		end := bytes.IndexByte(raw, 0)
		if end < 0 {
			return fmt.Errorf("%s: folder entry without an end", folder)
		}
		base := raw[:end]
		if typ != unix.DT_REG && typ != unix.DT_DIR && typ != unix.DT_UNKNOWN ||
			string(base) == "." || string(base) == ".." {
			continue
		}
		if w.seen++; w.seen > maxEntries {
			return fmt.Errorf("%s: more than %d files and folders", w.r.Path, maxEntries)
		}
		if err := w.entry(fd, folder, raw[:end+1], typ); err != nil {
			return err
		}
	}
	return nil
}

// entry looks at one name, which ends in a NUL.
func (w *walker) entry(fd int, folder string, raw []byte, typ byte) error {
	e := &w.now
	e.folder, e.Base = folder, raw[:len(raw)-1]
	if len(w.r.Path)+len(folder)+len(raw)+1 > maxPath {
		const shown = 60 // bytes of a name that nobody can read whole
		name := e.Name()
		w.v.Passed(name[:min(len(name), shown)]+"…", unix.ENAMETOOLONG)
		return nil
	}
	if typ == unix.DT_DIR {
		w.todo = append(w.todo, e.Name())
		return nil
	}
	if err := lstatat(fd, raw, &e.Stat); err != nil {
		if !errors.Is(err, unix.ENOENT) { // gone since
			w.v.Passed(e.Name(), err)
		}
		return nil
	}
	switch e.Stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		w.todo = append(w.todo, e.Name())
	case unix.S_IFREG:
		return w.v.File(e)
	}
	return nil
}

func join(folder, base string) string {
	if folder == "" {
		return base
	}
	return folder + "/" + base
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
