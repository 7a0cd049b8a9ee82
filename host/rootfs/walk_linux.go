// The walk over the regular files of a root filesystem.

package rootfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Entry is a name of a regular file. It is valid only during the visit, except for the result of Name.
type Entry struct {
	Base   []byte // the last part of the name
	Stat   unix.Stat_t
	dir    []byte
	r      *Root
	at     int   // the directory
	file   *File // opened already, in a root's own mount: until somebody takes it
	opened File
}

// Open opens the file as Root.OpenFile does; the caller closes it.
func (e *Entry) Open() (*File, error) {
	if f := e.file; f != nil {
		e.file = nil
		return f, nil
	}
	return e.r.open(func() (int, error) {
		return e.r.openat(e.at, e.Base[:len(e.Base)+1], unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	})
}

// Name returns the real path.
func (e *Entry) Name() string { return join(e.dir, e.Base) }

// Visitor gets the files of a walk, or those of one of several walkers.
type Visitor struct {
	// File is called for each name of a regular file. Errors end the walk.
	File func(e *Entry) error
	// Passed is called for each directory that cannot be read, or is in another mount (ErrMount).
	Passed func(name string, err error)
	// Seen, if not nil, is called first, for each name of a file or directory. Errors end the walk.
	Seen func() error
	// Opened, if not nil, is called for each directory that is read, open for reading.
	Opened func(fd int)
	// Known, if not nil, returns what Read got for the same directory, if that is still valid: its names are then
	// not read again. It returns nil for a directory that must be read.
	Known func(st *unix.Stat_t) []byte
	// Read, if not nil, gets the names in a directory that was read to its end, with its status before: the type
	// (DT_REG, …), the name and a NUL, of each. It is not called for directories with too many names.
	Read func(st *unix.Stat_t, names []byte)
}

// ErrMount reports that a directory is in another mount than the root. That mount may not exist before somebody
// opens the directory: NFS mounts the file systems of a server so.
var ErrMount = errors.New("another mount, not examined")

// maxKept is the maximum size of a directory's names for Read, in bytes.
const maxKept = 256 << 10

// Walk visits the regular files of the root, each by its real path. It does not follow symlinks, whose targets it
// visits at their own paths, and does not enter other mounts below the root.
//
// If the root has more than a few names, up to walkers walk it in parallel: start is called for the visitor of
// each, never twice at a time. With one walker the order is the same as long as no directory changes.
//
// A walker keeps one descriptor and one part of the names for each level: its memory grows with the depth, not
// with the number of directories.
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

// direntBuffer is how much of a directory getdents64 returns at once, in bytes.
const direntBuffer = 32 << 10

type walker struct {
	*group
	v      Visitor
	path   []byte // of the current directory
	levels []level
	buf    []byte
	now    Entry
	seen   int // names, of the first walker, until other walkers are started
}

// level is an open directory.
type level struct {
	fd    int
	path  int    // length of its path
	names []byte // of its subdirectories, each ended by a NUL, as far as they were read
	next  int    // into names: the first that was not entered yet
	end   bool   // it was read to its end
	begun bool
	read  bool // whole, from the disk
	fixed bool // its names do not change without its times
	st    unix.Stat_t
	kept  []byte // for Read
}

// how returns the flags to open a directory: one that may be known gets another descriptor for reading.
func (w *walker) how() int {
	if w.v.Known != nil && !w.r.alone {
		return unix.O_PATH | unix.O_DIRECTORY
	}
	return unix.O_RDONLY | unix.O_DIRECTORY
}

// subtree visits everything in and below a directory, and closes it.
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

// push makes the directory at w.path the lowest level; it reuses the memory for names of the previous one there.
func (w *walker) push(fd int) {
	n := len(w.levels)
	if n == cap(w.levels) {
		w.levels = append(w.levels, level{})
	}
	w.levels = w.levels[:n+1]
	w.levels[n] = level{fd: fd, path: len(w.path), names: w.levels[n].names[:0], kept: w.levels[n].kept[:0]}
}

// begin reads a known directory, or the first part of another.
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

// fresh reads the first part of a directory.
func (w *walker) fresh(l *level) error {
	w.r.sync(l.fd, []byte{0}, unix.AT_EMPTY_PATH)
	if w.v.Opened != nil {
		w.v.Opened(l.fd)
	}
	if w.v.Read != nil { // an encrypted directory has other names without its key (fscrypt.rst)
		var st unix.Statx_t
		err := unix.Statx(l.fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &st)
		l.fixed = err != nil || st.Attributes&unix.STATX_ATTR_ENCRYPTED == 0
	}
	return w.read(l)
}

// read reads a part of a directory.
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

// unread reports that a directory cannot be read; for the root, it returns an error.
func (w *walker) unread(l *level, err error) error {
	if l.path == 0 {
		return fmt.Errorf("%s: %w", w.r.Path, err)
	}
	w.v.Passed(string(w.path), err)
	return nil
}

// enter opens the next directory of a level and sets w.path to its path; -1 for none.
func (w *walker) enter(l *level) int {
	name := l.names[l.next:]
	name = name[:bytes.IndexByte(name, 0)]
	l.next += len(name) + 1
	w.path = w.path[:l.path]
	if l.path > 0 {
		w.path = append(w.path, '/')
	}
	w.path = append(w.path, name...)
	fd, err := w.openDir(l.fd, l.names[l.next-len(name)-1:l.next])
	switch {
	case errors.Is(err, unix.EXDEV):
		w.v.Passed(string(w.path), ErrMount)
		return -1
	case err != nil:
		w.v.Passed(string(w.path), err)
		return -1
	}
	return fd
}

// openDir opens a directory by its NUL-terminated name. A root's own mount has no other mounts in it, except those
// that network file systems make by themselves.
func (w *walker) openDir(in int, name []byte) (int, error) {
	if w.r.alone && w.r.Has(Dated) {
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

// entries visits the names that getdents64 returned for a directory.
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
		if string(base) == "." || string(base) == ".." {
			continue
		}
		if typ != unix.DT_REG && typ != unix.DT_DIR { // an image may have any type in its directories
			var st unix.Stat_t
			err := w.r.lstatat(l.fd, raw, &st)
			if kind := st.Mode & unix.S_IFMT; err == nil && kind != unix.S_IFREG && kind != unix.S_IFDIR {
				continue
			}
			typ = unix.DT_UNKNOWN
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

// one counts and visits a NUL-terminated name.
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

// entry visits one NUL-terminated name.
func (w *walker) entry(fd int, raw []byte, typ byte, below []byte) ([]byte, error) {
	e := &w.now
	e.r, e.at, e.dir, e.Base = w.r, fd, w.path, raw[:len(raw)-1]
	if len(w.r.Path)+len(w.path)+len(raw)+1 > maxPath {
		const shown = 60 // bytes of a name in a message
		name := e.Name()
		w.v.Passed(name[:min(len(name), shown)]+"…", unix.ENAMETOOLONG)
		return below, nil
	}
	if typ == unix.DT_DIR {
		return append(below, raw...), nil
	}
	if err := e.look(raw, typ); err != nil {
		if !errors.Is(err, unix.ENOENT) { // removed since
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

// look determines the type of a name. In a root's own mount most files will be read, so it opens them directly. A
// file that cannot be opened so has changed since, or is treated like any other.
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

func join(dir, base []byte) string {
	if len(dir) == 0 {
		return string(base)
	}
	return string(dir) + "/" + string(base)
}
