// Putting patched files into a root. All files of a start are prepared under other names and written to the disk
// together; then each gets its name. A start that is killed leaves the old or the new file.

package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/filecopy"
)

// errOther: another file is at the place of one that was examined.
var errOther = errors.New("another file is at its place")

// batch is how many files are prepared together: each is an open file.
const batch = 64

// directory is an open directory, with the times that it had before.
type directory struct {
	fd    int
	times []unix.Timespec
}

// directory opens the directory of a file, which stays open until restore.
func (r *root) directory(name string) (fd int, err error) {
	dir := path.Dir("/" + name)[1:]
	if d, open := r.dirs[dir]; open {
		return d.fd, nil
	}
	if fd, err = openAt(r.fd, dir, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return 0, err
	}
	r.dirs[dir] = directory{fd, []unix.Timespec{st.Atim, st.Mtim}}
	return fd, nil
}

// restore gives the directories that are open the times that they had, and closes them.
func (r *root) restore() {
	for _, d := range r.dirs {
		_ = setTimes(d.fd, d.times)
		unix.Close(d.fd)
	}
	clear(r.dirs)
}

// prepared is a file that is ready to get its names.
type prepared struct {
	names []string // of the file, below the root
	dirs  []int    // their directories
	file  *os.File // under temporary names in these directories
	done  int      // how many temporary names it has
}

// prepare creates a file under a temporary name.
func (r *root) prepare(names []string) (*prepared, error) {
	p := &prepared{names: names}
	for _, name := range names {
		fd, err := r.directory(name)
		if err != nil {
			return nil, err
		}
		p.dirs = append(p.dirs, fd)
	}
	temp := temporary(names[0])
	_ = unix.Unlinkat(p.dirs[0], temp, 0) // of a start that was killed
	fd, err := unix.Openat(p.dirs[0], temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	p.file, p.done = os.NewFile(uintptr(fd), temp), 1
	return p, nil
}

// temporary is the name of a file until it is ready: the same at each start, so that a later one removes it.
func temporary(name string) string {
	sum := sha256.Sum256([]byte(name))
	return temporaryPrefix + hex.EncodeToString(sum[:])[:temporaryDigits]
}

const (
	temporaryPrefix = ".vfix-"
	temporaryDigits = 16
)

// isTemporary reports whether a name is that of a file of a start that was killed.
func isTemporary(base string) bool {
	return len(base) == len(temporaryPrefix)+temporaryDigits && strings.HasPrefix(base, temporaryPrefix)
}

// discard removes the temporary names, and closes the file.
func (p *prepared) discard() {
	for i := range p.done {
		_ = unix.Unlinkat(p.dirs[i], temporary(p.names[i]), 0)
	}
	p.file.Close()
}

// rename gives the file all of its names.
func (p *prepared) rename() error {
	for i := 1; i < len(p.names); i++ {
		temp := temporary(p.names[i])
		_ = unix.Unlinkat(p.dirs[i], temp, 0)
		if err := unix.Linkat(p.dirs[0], temporary(p.names[0]), p.dirs[i], temp, 0); err != nil {
			return err
		}
		p.done++
	}
	for i := len(p.names) - 1; i >= 0; i-- {
		if err := unix.Renameat(p.dirs[i], temporary(p.names[i]), p.dirs[i], path.Base(p.names[i])); err != nil {
			return err
		}
		p.done--
	}
	return nil
}

// setTimes is utimensat(2) for an open file.
func setTimes(fd int, times []unix.Timespec) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), times, 0)
}

// change prepares the patched file of a target.
func (r *root) change(t *target, b *bounds) (p *prepared, err error) {
	fd, err := openAt(r.fd, t.todo, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	original := os.NewFile(uintptr(fd), t.todo)
	defer original.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if !t.matches(&st) {
		return nil, errOther
	}
	if r.links(&st) != len(t.Names) {
		return nil, fmt.Errorf("it has %d names, of which the container shows %d", st.Nlink, len(t.Names))
	}
	if b.written -= t.Size; b.written < 0 {
		return nil, fmt.Errorf("%w: too many bytes of patched files", errBound)
	}
	const immutable, appendOnly, verity = 0x10, 0x20, 0x100000 // FS_…_FL of uapi/linux/fs.h
	const marked = immutable | appendOnly | verity
	if flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS); err == nil && flags&marked != 0 {
		return nil, fmt.Errorf("it is immutable (flags %#x)", flags&marked)
	}
	if p, err = r.prepare(t.Names); err != nil {
		return nil, err
	}
	if err = t.write(p.file, original); err == nil {
		err = copyMetadata(fd, int(p.file.Fd()), &st)
	}
	if err != nil {
		p.discard()
		return nil, err
	}
	return p, nil
}

// write makes the patched file: a clone or a sparse copy of the original, whose old bytes are compared first.
func (t *target) write(w, original *os.File) error {
	if unix.IoctlFileClone(int(w.Fd()), int(original.Fd())) != nil {
		if _, err := filecopy.CopySparse(w, io.NewSectionReader(original, 0, t.Size)); err != nil {
			return err
		}
	}
	for _, e := range t.Edits {
		if !has(w, e.Offset, e.Old) {
			return errOther
		}
		if _, err := w.WriteAt(e.New, e.Offset); err != nil {
			return err
		}
	}
	_, err := w.WriteAt(t.Tail, t.Size)
	return err
}

// copyMetadata gives a file the owner, mode, extended attributes and times of another. The order matters: a change of
// the owner removes setuid and capabilities. It returns an error for what a patched copy cannot have.
func copyMetadata(from, to int, st *unix.Stat_t) error {
	const modeBits = 0o7777
	if err := unix.Fchown(to, int(st.Uid), int(st.Gid)); err != nil {
		return fmt.Errorf("owner %d:%d: %w", st.Uid, st.Gid, err)
	}
	if err := unix.Fchmod(to, st.Mode&modeBits); err != nil {
		return err
	}
	names, err := filecopy.ListXattrs(from)
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	for _, name := range names {
		if name == "security.ima" || name == "security.evm" {
			return fmt.Errorf("%s vouches for its content", name)
		}
		if filecopy.IsMark(name) {
			continue
		}
		value, err := filecopy.GetXattr(from, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if got, err := filecopy.GetXattr(to, name); err == nil && string(got) == string(value) {
			continue // as SELinux has set it
		}
		if err := unix.Fsetxattr(to, name, value, 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return setTimes(to, []unix.Timespec{st.Atim, st.Mtim})
}

// commit writes prepared files to the disk at the same time, and then gives each its names. Without that an ext4 or XFS
// file could be empty after a power failure, and hide the original. It returns an error for each file, nil for success.
func (r *root) commit(all []*prepared) []error {
	errs := make([]error, len(all))
	var syncs sync.WaitGroup
	for i, p := range all {
		syncs.Go(func() { errs[i] = p.file.Sync() })
	}
	syncs.Wait()
	for i, p := range all {
		if errs[i] == nil {
			errs[i] = p.rename()
		}
		p.discard()
	}
	return errs
}

// place puts the patched files of targets into the root. It returns those that stay, with the reasons.
func (r *root) place(targets []*target, b *bounds) (left []leftover) {
	for some := range slices.Chunk(targets, batch) {
		var all []*prepared
		var of []*target
		for _, t := range some {
			p, err := r.change(t, b)
			if err != nil {
				left = append(left, leftover{"/" + t.first(), err.Error()})
				continue
			}
			all, of = append(all, p), append(of, t)
		}
		for i, err := range r.commit(all) {
			if err != nil {
				left = append(left, leftover{"/" + of[i].first(), err.Error()})
			}
		}
		r.restore()
	}
	return left
}
