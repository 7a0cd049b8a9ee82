// The walk over the regular files of a root filesystem.

package rootfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Entry is a name of a regular file found by a walk. It is valid only during the visit, except for the result
// of Name.
type Entry struct {
	Base   []byte // the last part of the name
	Stat   unix.Stat_t
	folder []byte
	r      *Root
	at     int   // the folder
	file   *File // open already, in a root's own mount: opened, until somebody takes it
	opened File
}

// Open is Root.OpenFile of the file; the caller closes what it returns.
func (e *Entry) Open() (*File, error) {
	if f := e.file; f != nil {
		e.file = nil
		return f, nil
	}
	return e.r.open(func() (int, error) {
		return e.r.openat(e.at, e.Base[:len(e.Base)+1], unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	})
}

// Name is the real path.
func (e *Entry) Name() string { return join(e.folder, e.Base) }

// Visitor gets the findings of a walk, or of one of several walkers.
type Visitor struct {
	// File is called for each name of a regular file. Errors end the walk.
	File func(e *Entry) error
	// Passed is called for each folder that cannot be read.
	Passed func(name string, err error)
	// Seen, if not nil, is called for each name of a file or folder first. Errors end the walk.
	Seen func() error
	// Opened, if not nil, is called for each folder that is read, open for reading.
	Opened func(fd int)
	// Known, if not nil, returns what Read got for the same folder, if that is still valid: its names are
	// then not read again. nil is for one that must be read.
	Known func(st *unix.Stat_t) []byte
	// Read, if not nil, gets the names in a folder that was read to its end, as it was before: the type
	// (DT_REG, …), the name, a NUL, of each. Folders with too many names are left out.
	Read func(st *unix.Stat_t, names []byte)
}

// maxKept is how many bytes of a folder's names Read gets at most.
const maxKept = 256 << 10

// Walk visits the regular files of the root, each by its real path. Symlinks are not followed:
// their targets are visited at their own places. Other mounts below the root are not entered.
//
// Where the root has more than a few names, up to walkers go through it in parallel: start is called
// for the visitor of each, never twice at a time. With one walker the order is the same while no folder
// changes.
//
// A walker descends by descriptors, one for each level, and keeps one part of each folder's names: its memory
// grows with the depth, not with the number of folders.
func (r *Root) Walk(walkers int, start func() Visitor) error {
	g := &group{r: r, start: start, left: walkers - 1, tasks: make(chan task, max(walkers, 1))}
	g.open.Store(1)
	w := g.walker()
	fd, err := r.openReal("", w.how(), true)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	g.done(w.subtree(task{fd: fd}))
	w.others()
	g.running.Wait()
	return g.err
}

// direntBuffer is how much of a folder getdents64 returns at once, in bytes.
const direntBuffer = 32 << 10

type walker struct {
	*group
	v      Visitor
	path   []byte // of the folder that is being visited
	levels []level
	buf    []byte
	now    Entry
	seen   int // names, of the first walker, until there are others
}

// level is a folder that is open.
type level struct {
	fd    int
	path  int    // length of its path
	names []byte // of folders in it, each ended by a NUL, as far as it was read
	next  int    // into names: the first that was not entered yet
	end   bool   // it was read to its end
	begun bool
	read  bool // whole, from the disk
	fixed bool // its names change with its times alone
	st    unix.Stat_t
	kept  []byte // for Read
}

// how folders are opened: one that may be known is read by another descriptor.
func (w *walker) how() int {
	if w.v.Known != nil && !w.r.alone {
		return unix.O_PATH | unix.O_DIRECTORY
	}
	return unix.O_RDONLY | unix.O_DIRECTORY
}

// subtree visits everything in and below a folder, and closes it.
func (w *walker) subtree(t task) (err error) {
	w.path = append(w.path[:0], t.path...)
	w.levels = w.levels[:0]
	w.push(t.fd)
	defer func() {
		for _, l := range w.levels {
			w.r.close(l.fd)
		}
	}()
	for len(w.levels) > 0 && !w.stop.Load() {
		l := &w.levels[len(w.levels)-1]
		w.path = w.path[:l.path]
		if l.next < len(l.names) {
			if fd := w.enter(l); fd >= 0 {
				w.push(fd)
			}
			w.share()
			continue
		}
		if l.end {
			if w.v.Read != nil && l.st.Ino != 0 && len(l.kept) <= maxKept && l.read && l.fixed {
				w.v.Read(&l.st, l.kept)
			}
			w.r.close(l.fd)
			w.levels = w.levels[:len(w.levels)-1]
			continue
		}
		next := w.read
		if !l.begun {
			l.begun, next = true, w.begin
		}
		if err := next(l); err != nil {
			return err
		}
	}
	return nil
}

// push makes the folder at w.path the lowest level, with the memory for names that the last one there had.
func (w *walker) push(fd int) {
	n := len(w.levels)
	if n == cap(w.levels) {
		w.levels = append(w.levels, level{})
	}
	w.levels = w.levels[:n+1]
	w.levels[n] = level{fd: fd, path: len(w.path), names: w.levels[n].names[:0], kept: w.levels[n].kept[:0]}
}

// begin reads a folder that is known, or its first part.
func (w *walker) begin(l *level) error {
	if w.v.Known == nil {
		return w.fresh(l)
	}
	if err := w.r.fstat(l.fd, &l.st); err != nil {
		l.end = true
		return w.unread(l, err)
	}
	known := w.v.Known(&l.st)
	if known == nil && w.r.alone { // it is open for reading
		return w.fresh(l)
	}
	if known == nil {
		fd, err := retry(func() (int, error) {
			return unix.Openat(l.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			l.end = true
			return w.unread(l, err)
		}
		w.r.close(l.fd)
		l.fd = fd
		return w.fresh(l)
	}
	l.end = true
	for len(known) > 1 {
		end := 1 + bytes.IndexByte(known[1:], 0)
		if end == 0 {
			return fmt.Errorf("%s: a name without an end", w.path)
		}
		if err := w.one(l, known[0], known[1:end+1]); err != nil {
			return err
		}
		known = known[end+1:]
	}
	return nil
}

// fresh reads the first part of a folder.
func (w *walker) fresh(l *level) error {
	if w.v.Opened != nil {
		w.v.Opened(l.fd)
	}
	if w.v.Read != nil { // an encrypted folder has other names with its key and without (fscrypt.rst)
		var st unix.Statx_t
		err := unix.Statx(l.fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &st)
		l.fixed = err != nil || st.Attributes&unix.STATX_ATTR_ENCRYPTED == 0
	}
	return w.read(l)
}

// read reads a part of a folder.
func (w *walker) read(l *level) error {
	n, err := w.r.getdents(l.fd, w.buf)
	switch {
	case errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		l.end = true
		return w.unread(l, err)
	}
	if l.end = n <= 0; l.end {
		l.read = true
		return nil
	}
	l.next, l.names = 0, l.names[:0]
	return w.entries(l, w.buf[:n])
}

// unread says that a folder cannot be read; without the root there is nothing.
func (w *walker) unread(l *level, err error) error {
	if l.path == 0 {
		return fmt.Errorf("%s: %w", w.r.Path, err)
	}
	w.v.Passed(string(w.path), err)
	return nil
}

// enter opens the next folder of a level, whose path is w.path then; -1 for none.
func (w *walker) enter(l *level) int {
	name := l.names[l.next:]
	name = name[:bytes.IndexByte(name, 0)]
	l.next += len(name) + 1
	w.path = w.path[:l.path]
	if l.path > 0 {
		w.path = append(w.path, '/')
	}
	w.path = append(w.path, name...)
	fd, err := w.folder(l.fd, l.names[l.next-len(name)-1:l.next])
	switch {
	case errors.Is(err, unix.EXDEV): // another mount
		return -1
	case err != nil:
		w.v.Passed(string(w.path), err)
		return -1
	}
	return fd
}

// folder opens a folder by its name, which ends in a NUL. No other mount is in a root's own.
func (w *walker) folder(in int, name []byte) (int, error) {
	if w.r.alone {
		return retry(func() (int, error) { return w.r.openat(in, name, w.how()|unix.O_NOFOLLOW|unix.O_CLOEXEC) })
	}
	return w.r.openAt(in, string(name[:len(name)-1]), w.how(), true)
}

// The layout of struct linux_dirent64 (include/linux/dirent.h): d_ino, d_off, d_reclen,
// d_type, d_name.
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

// entries goes through what getdents64 returned for a folder.
func (w *walker) entries(l *level, b []byte) error {
	for len(b) > direntName {
		n := int(binary.NativeEndian.Uint16(b[direntReclen:]))
		if n <= direntName || n > len(b) {
			return fmt.Errorf("%s: directory entry of %d bytes", w.path, n)
		}
		typ, raw := b[direntType], b[direntName:n]
		b = b[n:]
		end := bytes.IndexByte(raw, 0)
		if end < 0 {
			return fmt.Errorf("%s: directory entry without an end", w.path)
		}
		base := raw[:end]
		if typ != unix.DT_REG && typ != unix.DT_DIR && typ != unix.DT_UNKNOWN ||
			string(base) == "." || string(base) == ".." {
			continue
		}
		if w.v.Read != nil && len(l.kept) <= maxKept {
			l.kept = append(append(l.kept, typ), raw[:end+1]...)
		}
		if err := w.one(l, typ, raw[:end+1]); err != nil {
			return err
		}
	}
	return nil
}

// one counts a name, which ends in a NUL, and looks at it.
func (w *walker) one(l *level, typ byte, raw []byte) (err error) {
	w.seen++
	if w.v.Seen != nil {
		if err := w.v.Seen(); err != nil {
			return err
		}
	}
	l.names, err = w.entry(l.fd, raw, typ, l.names)
	return err
}

// entry looks at one name, which ends in a NUL.
func (w *walker) entry(fd int, raw []byte, typ byte, below []byte) ([]byte, error) {
	e := &w.now
	e.r, e.at, e.folder, e.Base = w.r, fd, w.path, raw[:len(raw)-1]
	if len(w.r.Path)+len(w.path)+len(raw)+1 > maxPath {
		const shown = 60 // bytes of a name that nobody can read whole
		name := e.Name()
		w.v.Passed(name[:min(len(name), shown)]+"…", unix.ENAMETOOLONG)
		return below, nil
	}
	if typ == unix.DT_DIR {
		return append(below, raw...), nil
	}
	if err := e.look(raw, typ); err != nil {
		if !errors.Is(err, unix.ENOENT) { // gone since
			w.v.Passed(e.Name(), err)
		}
		return below, nil
	}
	switch e.Stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return append(below, raw...), nil
	case unix.S_IFREG:
		defer e.done()
		return below, w.v.File(e)
	}
	return below, nil
}

// look finds out what a name is. In a root's own mount most files will be read: they are opened at once. A
// file that cannot be opened in this way has changed since, or is treated like any other.
func (e *Entry) look(name []byte, typ byte) error {
	if e.r.alone && typ == unix.DT_REG {
		const how = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		if fd, err := e.r.openat(e.at, name, how); err == nil {
			e.opened = File{fd: fd, r: e.r}
			if e.file = &e.opened; e.file.regular() == nil {
				e.Stat = e.opened.Stat
				return nil
			}
			e.done()
		}
	}
	return e.r.lstatat(e.at, name, &e.Stat)
}

// done closes the file if nobody has taken it.
func (e *Entry) done() {
	if e.file != nil {
		e.file.Close()
		e.file = nil
	}
}

func join(folder, base []byte) string {
	if len(folder) == 0 {
		return string(base)
	}
	return string(folder) + "/" + string(base)
}
