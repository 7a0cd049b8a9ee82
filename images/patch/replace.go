// The new files. Each is written beside its name and renamed: a running program or a mapped library keeps its old inode.

package patch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// copy copies a path to a temporary name beside the output, which must not exist, and not be in the directory that is
// copied.
func (r *run) copy(ctx context.Context, name, temp string) error {
	d, err := contents.OpenDisk(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := os.Lstat(r.o.Output); err == nil {
		return hinterr.With(fmt.Errorf("%s: exists", r.o.Output), "name one that does not exist yet, or patch PATH in place: -i")
	}
	if d.Only == "" && source.Inside(d.Real(), temp) {
		return source.ErrInside(r.o.Output, name)
	}
	out, err := os.OpenRoot(filepath.Dir(temp))
	if err != nil {
		return atomicfile.About(filepath.Clean(r.o.Output), err)
	}
	defer out.Close()
	if d.Only != "" {
		f := &file{names: []place{{d, d.Only}}, write: func(w, old *os.File) error {
			_, err := filecopy.CopySparse(w, blob.Reading{Ctx: ctx, Reader: old})
			return err
		}}
		return contents.WrapPath(name, r.write(f, d.Root, d.Only, out, filepath.Base(temp)))
	}
	if os.Geteuid() != 0 {
		r.warn("%s: the copy is yours: owners, devices and attributes that only root may set are not kept", r.o.Output)
	}
	flags := "-a" // POSIX has no such option; GNU, BusyBox and macOS have it
	if r.o.OneFS {
		flags = "-ax"
	}
	if printed, err := exec.CommandContext(ctx, "cp", flags, "--", d.Real(), temp).CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(string(printed), "\n")
		return cmp.Or(context.Cause(ctx), fmt.Errorf("%s: copy to %s: %s", name, r.o.Output, cmp.Or(first, err.Error())))
	}
	return nil
}

// put makes a file under a temporary name in a directory, and renames it. The directory keeps its mtime.
func put(dir *os.Root, name string, makeFile func(temp string) error) error {
	fi, err := dir.Stat(".")
	if err != nil {
		return err
	}
	temp := atomicfile.TempName(name)
	if err = makeFile(temp); err == nil {
		err = dir.Rename(temp, name)
	}
	if err != nil {
		dir.Remove(temp)
	}
	_ = dir.Chtimes(".", time.Time{}, fi.ModTime()) // only its owner may
	return err
}

// replace replaces a file under all its names: the first gets the new file, the others become links to it. It notes names
// outside of the paths given, which keep the old content. Writing through them would change files that were not named
// (package caches are hard-linked into many places).
func (r *run) replace(f *file) error {
	first := f.names[0]
	full, name := first.Full(first.name), path.Base(first.name)
	dir, err := first.Root.OpenRoot(path.Dir(first.name)) // once: no symlink that replaces it leads elsewhere
	if err == nil {
		defer dir.Close()
		err = put(dir, name, func(temp string) error { return r.write(f, dir, name, dir, temp) })
	}
	if err != nil {
		return contents.WrapPath(full, err)
	}
	replaced := uint64(1)
	for _, other := range f.names[1:] {
		n, err := f.link(dir, name, other)
		if err != nil {
			return contents.WrapPath(other.Full(other.name), err)
		}
		replaced += n
	}
	if _, links := contents.Identify(f.seen); replaced < links {
		progress.Note(r.o.Progress, "%s: more hard links outside the given paths keep the old content: %d", full, links-replaced)
	}
	return nil
}

var errChanged = errors.New("changed while it was read") // so the plan may not fit

// link makes another name of a file a link to the new one, and returns 1; or 0 if it is one, the same name by another
// path.
func (f *file) link(from *os.Root, name string, other place) (n uint64, err error) {
	to, err := other.Root.OpenRoot(path.Dir(other.name))
	if err != nil {
		return 0, err
	}
	defer to.Close()
	base := path.Base(other.name)
	was, err := to.Lstat(base)
	made, madeErr := from.Lstat(name)
	switch {
	case err != nil || madeErr != nil:
		return 0, errors.Join(err, madeErr)
	case os.SameFile(was, made):
		return 0, nil
	case !os.SameFile(was, f.seen):
		return 0, errChanged
	}
	return 1, put(to, base, func(temp string) error { return linkAt(from, name, to, temp) })
}

// linkAt gives a file in a directory a name in another one.
func linkAt(from *os.Root, name string, to *os.Root, newName string) error {
	old, err := from.Open(".")
	if err != nil {
		return err
	}
	defer old.Close()
	dir, err := to.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return os.NewSyscallError("linkat", unix.Linkat(int(old.Fd()), name, int(dir.Fd()), newName, 0))
}

// write writes the new file under a temporary name, with the owner, mode, times and xattrs of the old one, without marks
// of its content if it changes. It is an error if only root may set some of that, except of a copy, and except for the
// group of the caller's own file without a setuid or setgid bit.
func (r *run) write(f *file, from *os.Root, name string, to *os.Root, temp string) error {
	old, err := from.OpenFile(name, os.O_RDONLY|contents.OpenNoBlock, 0)
	if err != nil {
		return err
	}
	defer old.Close()
	fi, err := old.Stat()
	isCopy := f.seen == nil
	switch {
	case err != nil:
		return err
	case isCopy:
	case !os.SameFile(fi, f.seen), fi.Size() != f.seen.Size(), !fi.ModTime().Equal(f.seen.ModTime()):
		return errChanged
	}
	const private = 0o600 // until it has its owner
	made, err := to.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return fmt.Errorf("create a file in %s: %w", filepath.Clean(to.Name()), errors.Unwrap(err))
	}
	defer made.Close()
	if err := f.write(made, old); err != nil {
		return err
	}
	h, dropped, lost, err := contents.CopyMeta(old, made, !isCopy)
	if err != nil {
		return err
	}
	const setID = 0o6000
	own := h.Uid == os.Geteuid() && h.Mode&setID == 0
	for _, l := range lost {
		if mayGo := isCopy || own && strings.HasPrefix(l, contents.LostGroup); !mayGo {
			return fmt.Errorf("keep %s: %w", l, fs.ErrPermission)
		}
		r.warn("%s: not kept: %s (needs root)", f.names[0].Full(f.names[0].name), l)
	}
	if f.tarball && len(dropped) > 0 { // the plan of a program says it
		r.warn("%s: %s", f.names[0].Path, contents.MarkWarning(dropped))
	}
	return cmp.Or(to.Chtimes(temp, h.AccessTime, h.ModTime), made.Sync())
}
