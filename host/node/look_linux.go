// A look at the files of one directory, within bounds: an image is hostile.

package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/rewriter/find"
)

// bounds limit the work of one start: what is left of each. Whatever is over one of them is left, and the record says so.
type bounds struct {
	time    time.Duration // that the start may be delayed
	entries int           // of directories
	files   int           // to examine
	written int64         // bytes of patched files
}

var defaultBounds = bounds{time: 10 * time.Second, entries: 1 << 20, files: 2000, written: 1 << 30}

const (
	// bufferSize is how much of a file is read at once, in bytes.
	bufferSize = 256 << 10
	maxDepth   = 128 // directories inside one another
	// minSize is the size of the smallest file that is looked at, in bytes: no program is smaller than an ELF header.
	minSize = 64
	// maxSize is the size of the largest one.
	maxSize = 1 << 30
)

// errBound: one of the bounds is reached.
var errBound = errors.New("over a bound of vfix")

// target is a file with something to patch, or with something that stays.
type target struct {
	Names []string `json:"names"` // of the inode, below the directory
	Links int      `json:"links"` // how many names the inode has anywhere
	Size  int64    `json:"size"`
	Mtime int64    `json:"mtime"` // nanoseconds, as Ctime
	Ctime int64    `json:"ctime"`
	examiner.Finding

	todo []string // names below the root that get the patched file; the first one has the original
	gone bool     // the root shows neither the original nor the patched file
}

// leftover is a file that stays as it is, and why.
type leftover struct {
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason"`
}

// findings are the files of one directory. Left has no path for why a look ended early. A directory of which something
// could not be examined is looked at again after a day.
type findings struct {
	Targets []*target  `json:"targets,omitempty"`
	Left    []leftover `json:"left,omitempty"`
	Time    time.Time  `json:"time,omitzero"`
}

// looker looks for files to patch in the directories of one root.
type looker struct {
	*root
	*bounds
	examiner.Examiner
	cache *cache
	maker string // what patches depend on
	// done are names for which the root shows a patched file.
	done     map[string]bool
	use      string // of the cache: hit, miss or none, if the layers are not known
	cut      bool   // a look in this start ended early
	examined int
	buf      []byte

	// Of the directory that is being looked at:
	found  *findings
	inodes map[inode]*target // files with several names; nil for those without anything to patch
}

type inode struct{ device, number uint64 }

// look examines the files below an open directory.
func (l *looker) look(dir int) (*findings, error) {
	l.found, l.inodes = &findings{Time: time.Now().UTC()}, map[inode]*target{}
	err := l.walk(dir, ".", "", 0)
	if l.cut = errors.Is(err, errBound) || errors.Is(err, examiner.ErrTime); l.cut {
		l.found.Left = append(l.found.Left, leftover{Reason: err.Error()})
		err = nil
	}
	return l.found, err
}

// walk looks at everything below a directory: base in at, which is depth directories below the first one, and called name
// there.
func (l *looker) walk(at int, base, name string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: /%s: more than %d directories inside one another", errBound, name, maxDepth)
	}
	fd, err := openAt(at, base, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil && depth == 0 {
		return fmt.Errorf("/%s: %w", name, err)
	}
	if err != nil {
		return unread(name, err)
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	for {
		const piece = 256 // entries
		entries, end := dir.ReadDir(piece)
		for _, e := range entries {
			if err := l.visit(fd, e, path.Join(name, e.Name()), depth); err != nil {
				return err
			}
		}
		if errors.Is(end, io.EOF) {
			return nil
		}
		if end != nil {
			return fmt.Errorf("/%s: %w", name, end)
		}
	}
}

// visit looks at one entry of an open directory, except names that are known to be patched.
func (l *looker) visit(dir int, e fs.DirEntry, name string, depth int) error {
	l.entries--
	switch {
	case l.entries < 0:
		return fmt.Errorf("%w: too many files and directories", errBound)
	case time.Now().After(l.Until):
		return fmt.Errorf("%w: more than %v", errBound, l.time)
	case l.done[name], name == staging:
		return nil
	case e.IsDir():
		return l.walk(dir, e.Name(), name, depth+1)
	case e.Type().IsRegular():
		return l.file(dir, e.Name(), name)
	}
	return nil
}

// unread is what an error of a file or directory means for a look: nothing if it is gone, forbidden, of another mount, or no file;
// such are left out. Others end the look: what is there is not known.
func unread(name string, err error) error {
	for _, out := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EACCES, unix.EPERM, errNotRegular} {
		if errors.Is(err, out) {
			return nil
		}
	}
	return fmt.Errorf("/%s: %w", name, err)
}

// file looks at one file: base in dir, called name below the first directory. An error ends the look.
func (l *looker) file(dir int, base, name string) error {
	var st, opened unix.Stat_t
	err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) // opening takes longer
	if err != nil {
		return unread(name, err)
	}
	if st.Size < minSize || st.Size > maxSize {
		return nil
	}
	id := inode{st.Dev, st.Ino}
	if t, known := l.inodes[id]; known {
		if t != nil {
			t.Names = append(t.Names, name)
		}
		return nil
	}
	if st.Nlink > 1 {
		l.inodes[id] = nil
	}
	f, err := l.openELF(dir, base, name)
	if err != nil {
		return unread(name, err)
	}
	if f == nil {
		return nil
	}
	defer f.Close()
	if err := unix.Fstat(int(f.Fd()), &opened); err != nil {
		return unread(name, err)
	}
	t := &target{Names: []string{name}, Links: int(st.Nlink), Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
	if !t.matches(&opened) || !l.suspect(f, st.Size) {
		return nil
	}
	if l.files--; l.files < 0 {
		return fmt.Errorf("%w: too many files to examine", errBound)
	}
	l.examined++
	t.Finding, err = l.Examine(f, st.Size)
	switch {
	case errors.Is(err, examiner.ErrTime), errors.Is(err, examiner.ErrRefused):
		return err
	case err != nil:
		l.found.Left = append(l.found.Left, leftover{"/" + name, err.Error()})
	case !t.Empty() || t.Left != "" || t.Fix != "":
		l.found.Targets = append(l.found.Targets, t)
		if t.Links > 1 {
			l.inodes[id] = t
		}
	}
	return nil
}

// openELF opens a file that starts as 64-bit ELF for x86-64 does; it returns nil for another. A file of which a layer has
// only the metadata is zeros there, and opened as the root shows it (overlayfs.rst, "Metadata only copy up"). One that
// cannot be read is left to the examination.
func (l *looker) openELF(dir int, base, name string) (*os.File, error) {
	fd, err := openAt(dir, base, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	head, err := readHead(fd)
	if err != nil || isELF(head) {
		return os.NewFile(uintptr(fd), name), nil
	}
	unix.Close(fd) // most files: an os.File would take two more system calls
	if head != [headSize]byte{} {
		return nil, nil
	}
	shown, _, err := l.openFile(name)
	if err != nil {
		return nil, err
	}
	if head, err = readHead(int(shown.Fd())); err == nil && !isELF(head) {
		shown.Close()
		return nil, nil
	}
	return shown, nil
}

// headSize is how many bytes tell a program of this machine (ELF gABI, e_ident to e_machine).
const headSize = 20

func readHead(fd int) (head [headSize]byte, err error) {
	_, err = unix.Pread(fd, head[:], 0)
	return head, err
}

func isELF(head [headSize]byte) bool {
	const class64, x86_64 = "\x7fELF\x02", "\x3e\x00"
	return string(head[:len(class64)]) == class64 && string(head[headSize-2:]) == x86_64
}

// suspect reports whether a file has the bytes of an address of the page, or may have a name that a fix is about. Most files
// have none, and are not parsed. An error is left to the examination.
func (l *looker) suspect(f io.ReaderAt, size int64) bool {
	if len(l.Fixes) > 0 {
		return true
	}
	named, err := find.Named(f, size, l.buf)
	return named || err != nil
}

// matches reports whether a file is the one that was examined, by its size and times.
func (t *target) matches(st *unix.Stat_t) bool {
	return st.Size == t.Size && st.Mtim.Nano() == t.Mtime && st.Ctim.Nano() == t.Ctime
}

// isResult reports whether a file is the result of the patch.
func (t *target) isResult(f io.ReaderAt, size int64) bool {
	if size != t.Size+int64(len(t.Tail)) || t.Empty() {
		return false
	}
	for _, e := range t.Edits {
		if !has(f, e.Offset, e.New) {
			return false
		}
	}
	return has(f, uint64(t.Size), t.Tail)
}

func has(f io.ReaderAt, offset uint64, want []byte) bool {
	got := make([]byte, len(want))
	n, _ := f.ReadAt(got, int64(offset))
	return n == len(want) && bytes.Equal(got, want)
}

// path is the name of a target in a record.
func (t *target) path() string { return "/" + t.Names[0] }
