// Which files of a root need a patch: those of its layers, which the cache knows after the first start, and those that
// the container has changed.

package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/rewriter/find"
)

// target is a file with something to patch, or with something that stays.
type target struct {
	Names []string `json:"names"` // all that one inode has, below the root
	Size  int64    `json:"size"`
	Mtime int64    `json:"mtime"` // nanoseconds, as Ctime
	Ctime int64    `json:"ctime"`
	examiner.Finding

	todo string // one of the names that has the original; "" for none
	gone bool   // the container shows no name of it
}

// leftover is a file that stays as it is, and why.
type leftover struct {
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason"`
}

// findings are the files of one walk. Cut says why the walk ended early, "" if it did not; that is looked at again
// after a day.
type findings struct {
	Targets []*target  `json:"targets,omitempty"`
	Left    []leftover `json:"left,omitempty"`
	Cut     string     `json:"cut,omitempty"`
	Time    time.Time  `json:"time,omitzero"`
}

func (f *findings) leave(name string, err error) {
	f.Left = append(f.Left, leftover{"/" + name, err.Error()})
}

// looker looks for files to patch in one root.
type looker struct {
	*root
	*bounds
	examiner.Examiner
	found    *findings
	inodes   map[uint64]*target // files with several names; nil for those without anything to patch
	buf      []byte
	examined int
	// ownEntries is how many entries the container's own directories have, as far as they were visited.
	ownEntries int
}

// look examines the files that walk visits.
func (l *looker) look(walk func() error) (*findings, error) {
	l.found, l.inodes = &findings{}, map[uint64]*target{}
	err := walk()
	if errors.Is(err, errBound) || errors.Is(err, examiner.ErrTime) {
		l.found.Cut, l.found.Time, err = err.Error(), time.Now().UTC(), nil
	}
	return l.found, err
}

// below looks at the root without the container's own files: at what its layers have.
func (l *looker) below() (*findings, error) {
	l.Start()
	return l.look(func() error {
		return l.walk(l.fd, ".", "", 0, func(dir int, base, name string, kind fs.FileMode) error {
			if !kind.IsRegular() {
				return nil
			}
			return l.file(dir, base, name, true)
		})
	})
}

// isOwn reports whether one of the container's own directories has a name.
func (l *looker) isOwn(name string) bool {
	for _, dir := range l.own {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(dir, name), &st) == nil {
			return true
		}
	}
	return false
}

// above looks at the container's own files, except names that are done. hides reports that they hide programs of the
// layers, so that a look at the root does not show what the layers have.
func (l *looker) above(done map[string]bool) (found *findings, hides bool, err error) {
	l.extend()
	l.Until = l.until
	found, err = l.look(func() error {
		for _, dir := range l.own {
			fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			err = l.walk(fd, ".", "", 0, func(at int, base, name string, kind fs.FileMode) error {
				l.ownEntries++
				if !done[name] {
					hides = hides || l.hides(at, base, name, kind)
				}
				if !kind.IsRegular() || done[name] || isTemporary(base) {
					return nil
				}
				return l.file(l.fd, name, name, false)
			})
			unix.Close(fd)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return found, hides, err
}

// hides reports whether an entry of an own directory hides programs of the layers (overlayfs.rst, "whiteouts and opaque
// directories").
func (l *looker) hides(at int, base, name string, kind fs.FileMode) bool {
	if kind.IsDir() {
		return opaque(at, base) && l.anyLower(name, func(fs.FileInfo, string) bool { return true })
	}
	return l.anyLower(name, func(fi fs.FileInfo, path string) bool {
		return fi.IsDir() || fi.Mode().IsRegular() && startsAsELF(path)
	})
}

func (l *looker) anyLower(name string, test func(fs.FileInfo, string) bool) bool {
	for _, dir := range l.lower {
		path := filepath.Join(dir, name)
		if fi, err := os.Lstat(path); err == nil && test(fi, path) {
			return true
		}
	}
	return false
}

// opaque reports whether a directory of an overlay replaces those below it, or has the content of another one.
func opaque(at int, base string) bool {
	fd, err := unix.Openat(at, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	for _, prefix := range []string{"trusted.overlay.", "user.overlay.", "user.fuseoverlayfs."} {
		for _, name := range []string{"opaque", "redirect"} {
			if n, err := unix.Fgetxattr(fd, prefix+name, nil); err == nil && n > 0 {
				return true
			}
		}
	}
	return false
}

func startsAsELF(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	return isELF(int(f.Fd()))
}

// isELF reports whether a file starts as 64-bit ELF for x86-64 does (ELF gABI, e_ident and e_machine). An error is left
// to the examination.
func isELF(fd int) bool {
	const class64, x86_64 = "\x7fELF\x02", "\x3e\x00"
	var head [20]byte
	n, err := unix.Pread(fd, head[:], 0)
	return err != nil || n == len(head) && string(head[:len(class64)]) == class64 && string(head[18:]) == x86_64
}

// file looks at one file; among those below not at the container's own. An error ends the walk.
func (l *looker) file(dir int, base, name string, below bool) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) // opening takes longer
	if err != nil {
		return unread(name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size < minSize || st.Size > maxSize {
		return nil
	}
	if l.links(&st) > 1 {
		if t, known := l.inodes[st.Ino]; known {
			if t != nil {
				t.Names = append(t.Names, name)
			}
			return nil
		}
		l.inodes[st.Ino] = nil
	}
	fd, err := openAt(dir, base, unix.O_RDONLY)
	if err != nil {
		return unread(name, err)
	}
	if !isELF(fd) { // most files: an os.File would take two more system calls
		unix.Close(fd)
		return nil
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := unix.Fstat(fd, &st); err != nil {
		return unread(name, err)
	}
	if !l.suspect(f, st.Size) || below && l.isOwn(name) {
		return nil
	}
	if l.files--; l.files < 0 {
		return fmt.Errorf("%w: too many files to examine", errBound)
	}
	l.examined++
	found, err := l.Examine(f, st.Size)
	if errors.Is(err, examiner.ErrTime) || errors.Is(err, examiner.ErrRefused) {
		return err
	}
	if err != nil {
		l.found.leave(name, err)
		return nil
	}
	if found.Empty() && found.Left == "" && found.Fix == "" {
		return nil
	}
	t := &target{Names: []string{name}, Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(), Finding: found, todo: name}
	l.found.Targets = append(l.found.Targets, t)
	if l.links(&st) > 1 {
		l.inodes[st.Ino] = t
	}
	return nil
}

// suspect reports whether a file has the bytes of an address of the page, or a name that a fix is about. Most files
// have none, and are not parsed. An error is left to the examination.
func (l *looker) suspect(f io.ReaderAt, size int64) bool {
	if l.buf == nil {
		const buffer = 256 << 10
		l.buf = make([]byte, buffer)
	}
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

// done reports whether a file is the result of the patch.
func (t *target) done(f io.ReaderAt, size int64) bool {
	if size != t.Size+int64(len(t.Tail)) || t.Empty() {
		return false
	}
	for _, e := range t.Edits {
		if !has(f, e.Offset, e.New) {
			return false
		}
	}
	return has(f, t.Size, t.Tail)
}

func has(f io.ReaderAt, offset int64, want []byte) bool {
	got := make([]byte, len(want))
	n, _ := f.ReadAt(got, offset)
	return n == len(want) && bytes.Equal(got, want)
}

// first is the name of a target in a record.
func (t *target) first() string { return strings.TrimPrefix(t.Names[0], "/") }
