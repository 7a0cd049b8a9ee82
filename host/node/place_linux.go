// Files are put into a root. They are made in a directory of their own, and written to the disk together; then each gets
// its names. A start that is killed leaves the old or the new file, and that directory, which the next one removes.

package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/filecopy"
)

// staging is the directory in a root in which files are made.
const staging = ".vfix-staging"

// parallel is how many files are made at the same time: the disk writes them together.
const parallel = 16

// addition is a file for a root: its names there, and the target that it is made from or what writes it.
type addition struct {
	names  []string
	target *target
	write  func(*os.File) error
}

// errOther: another file is at the place of one that was examined.
var errOther = errors.New("another file is at its place")

// place puts files into the root, and removes what a start that was killed has left. It returns an error for each file,
// nil for success.
func (r *root) place(files []addition) []error {
	clean := func() {
		_ = r.tree.RemoveAll(staging)
		_ = r.tree.Chtimes(".", time.Time{}, time.Unix(r.stat.Mtime.Sec, int64(r.stat.Mtime.Nsec)))
	}
	if _, err := r.tree.Lstat(staging); err == nil {
		clean()
	}
	if len(files) == 0 {
		return nil
	}
	defer clean()
	const private = 0o700
	if err := r.tree.Mkdir(staging, private); err != nil {
		return slices.Repeat([]error{err}, len(files))
	}
	errs := make([]error, len(files))
	staged := func(i int) string { return path.Join(staging, strconv.Itoa(i)) }
	var made errgroup.Group
	made.SetLimit(parallel)
	for i, file := range files {
		made.Go(func() error {
			errs[i] = r.stage(staged(i), file)
			return nil
		})
	}
	_ = made.Wait()
	for i, file := range files {
		if errs[i] == nil {
			errs[i] = r.name(staged(i), file.names)
		}
		_ = r.tree.Remove(staged(i)) // clean removes those of which this fails
	}
	return errs
}

// stage makes a file. Without fsync an ext4 or XFS file could be empty after a power failure, and hide the original.
func (r *root) stage(name string, file addition) error {
	const private = 0o600
	f, err := r.tree.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return err
	}
	if file.target != nil {
		err = r.rewrite(file.target, f)
	} else {
		err = file.write(f)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// name gives a file its names below the root, in directories that keep their times.
func (r *root) name(staged string, names []string) error {
	for _, name := range names {
		link := staged + ".link"
		if err := r.tree.Link(staged, link); err != nil {
			return err
		}
		dir, err := r.tree.Lstat(path.Dir(name))
		if err != nil {
			return err
		}
		if err := r.tree.Rename(link, name); err != nil {
			return err
		}
		_ = r.tree.Chtimes(path.Dir(name), time.Time{}, dir.ModTime())
	}
	return nil
}

// rewrite makes the patched file of a target.
func (r *root) rewrite(t *target, w *os.File) error {
	original, st, err := r.openFile(t.todo[0])
	if err != nil {
		return err
	}
	defer original.Close()
	if !t.matches(&st) {
		return errOther
	}
	if t.Links != len(t.Names) {
		return fmt.Errorf("it has %d names, of which the container shows %d", t.Links, len(t.Names))
	}
	const immutable, appendOnly, verity = 0x10, 0x20, 0x100000 // FS_…_FL of uapi/linux/fs.h
	const marked = immutable | appendOnly | verity
	if flags, err := unix.IoctlGetInt(int(original.Fd()), unix.FS_IOC_GETFLAGS); err == nil && flags&marked != 0 {
		return fmt.Errorf("it is immutable (flags %#x)", flags&marked)
	}
	if err := t.write(w, original); err != nil {
		return err
	}
	return copyMetadata(int(original.Fd()), int(w.Fd()), &st)
}

// write makes the patched file: a clone or a sparse copy of the original, whose old bytes are compared first.
func (t *target) write(w, original *os.File) error {
	if unix.IoctlFileClone(int(w.Fd()), int(original.Fd())) != nil {
		if _, err := filecopy.CopySparse(w, io.NewSectionReader(original, 0, t.Size)); err != nil {
			return err
		}
	}
	for _, e := range t.Edits {
		if len(e.New) != len(e.Old) || !has(w, e.Offset, e.Old) {
			return errOther
		}
		if _, err := w.WriteAt(e.New, int64(e.Offset)); err != nil {
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
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", to), []unix.Timespec{st.Atim, st.Mtim}, 0)
}
