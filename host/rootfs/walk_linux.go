package rootfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxEntries is how many names a root may have: far above any image, and a bound for the
// memory and time that a hostile one can take.
const maxEntries = 8 << 20

// Visitor gets what a walk finds.
type Visitor struct {
	// File is called for each name of a regular file. Errors end the walk.
	File func(name string, st *unix.Stat_t) error
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
		n, err := unix.Getdents(fd, w.buf)
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
		if i := bytes.IndexByte(raw, 0); i >= 0 {
			raw = raw[:i]
		}
		if typ != unix.DT_REG && typ != unix.DT_DIR && typ != unix.DT_UNKNOWN ||
			string(raw) == "." || string(raw) == ".." {
			continue
		}
		if w.seen++; w.seen > maxEntries {
			return fmt.Errorf("%s: more than %d files and folders", w.r.Path, maxEntries)
		}
		if err := w.entry(fd, folder, string(raw), typ); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(fd int, folder, base string, typ byte) error {
	name := base
	if folder != "" {
		name = folder + "/" + base
	}
	if len(w.r.Path)+1+len(name) > maxPath {
		w.v.Passed(name[:min(len(name), 60)]+"…", unix.ENAMETOOLONG)
		return nil
	}
	if typ == unix.DT_DIR {
		w.todo = append(w.todo, name)
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if !errors.Is(err, unix.ENOENT) { // gone since
			w.v.Passed(name, err)
		}
		return nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		w.todo = append(w.todo, name)
	case unix.S_IFREG:
		return w.v.File(name, &st)
	}
	return nil
}
