// The new files: each is written beside the name that it will have. Only when all of them are on the disk do they get
// their names, so that an error or ^C before that leaves everything unchanged and no files behind. A running program or
// a mapped library keeps its old inode.

package patch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/internal/progress"
)

// replacement is a file written under a temporary name that waits for its final one.
type replacement struct {
	dir         *directory
	temp, final string // in dir
	from        string // the file it was made from, as the user would type it
	id          contents.FileID
	links       uint64 // names that the file system knows of that file
	done        bool
	dropped     []string // the marks that it does not keep
}

// directory is one in which files are replaced. It is opened once, so that nothing leads out of it if a symlink replaces
// it.
type directory struct {
	*os.Root
	self     *os.File
	modified time.Time // which it keeps; zero: it does not
}

// openDirectory opens a directory in a root.
func openDirectory(root *os.Root, name string) (*directory, error) {
	opened, err := root.OpenRoot(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	d := &directory{Root: opened}
	if d.self, err = opened.Open("."); err != nil {
		opened.Close()
		return nil, err
	}
	if fi, err := d.self.Stat(); err == nil {
		d.modified = fi.ModTime()
	}
	return d, nil
}

func (d *directory) Close() { d.self.Close(); d.Root.Close() }

// link gives a file in the directory a name in another one.
func (d *directory) link(from string, to *directory, name string) error {
	return os.NewSyscallError("linkat", unix.Linkat(int(d.self.Fd()), from, int(to.self.Fd()), name, 0))
}

// replace writes the patched copy of a file, and a further name of the copy for each further name that the file has in
// the tree.
func (p *patchRun) replace(ctx context.Context, d *contents.Disk, h contents.File) error {
	id, links := contents.Identify(h.Disk)
	first, names := p.written[id], h.Names
	if first == nil {
		var err error
		first, err = p.prepare(d, names[0], h.Disk, true, func(w, r *os.File) error {
			n, err := filecopy.CopySparse(w, blob.Reading{Ctx: ctx, Reader: h.Plan.Apply(r)})
			if err == nil && n != h.Plan.Size {
				err = fmt.Errorf("patched file: got %d bytes, want %d", n, h.Plan.Size)
			}
			return err
		})
		if err != nil || first == nil {
			return err
		}
		names = names[1:]
		if links > 1 {
			p.written[id] = first
		}
	}
	for _, name := range names {
		r, err := p.begin(d.Root, name)
		if err == nil && r != nil {
			r.id = first.id
			err = first.dir.link(first.temp, r.dir, r.temp)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.Full(name), err)
		}
	}
	return nil
}

// prepare writes a file that is to replace the file name of d, or the output if d is a file to copy. write makes its
// content from the old one, which must still be as it was seen, if it was; owner, mode, times and xattrs are kept, but of
// a changed file the marks of its old content. The result is nil for a name that has its replacement already.
func (p *patchRun) prepare(d *contents.Disk, name string, seen fs.FileInfo, changed bool, write func(w, r *os.File) error) (*replacement, error) {
	old, err := d.Root.OpenFile(name, os.O_RDONLY|contents.OpenNoBlock, 0)
	if err != nil {
		return nil, contents.WrapPath(d.Full(name), err)
	}
	defer old.Close()
	root, final, isCopy := d.Root, name, d.Only != "" && !p.o.InPlace
	if isCopy {
		if root, err = os.OpenRoot(filepath.Dir(p.o.Output)); err != nil {
			return nil, atomicfile.About(p.o.Output, err)
		}
		defer root.Close()
		final = filepath.Base(p.o.Output)
	}
	r, err := p.begin(root, final)
	if r == nil || err != nil {
		return nil, err
	}
	if isCopy {
		r.dir.modified = time.Time{} // it gets a new name
	}
	r.from = d.Full(name)
	return r, contents.WrapPath(r.from, p.fill(r, old, seen, isCopy, changed, write))
}

// fill writes a replacement. A copy loses with a warning what only root may set; in place that is an error, except for
// the group of the caller's own file without a setuid or setgid bit.
func (p *patchRun) fill(r *replacement, old *os.File, seen fs.FileInfo, isCopy, changed bool, write func(w, r *os.File) error) error {
	fi, err := old.Stat()
	if err != nil {
		return err
	}
	if seen != nil && !(os.SameFile(fi, seen) && fi.Size() == seen.Size() && fi.ModTime().Equal(seen.ModTime())) {
		return errors.New("changed while it was read")
	}
	r.id, r.links = contents.Identify(fi)
	const private = 0o600 // until it has its owner
	f, err := r.dir.OpenFile(r.temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return fmt.Errorf("create a file in %s: %w", filepath.Clean(r.dir.Name()), errors.Unwrap(err))
	}
	defer f.Close()
	if err := write(f, old); err != nil {
		return err
	}
	h, dropped, lost, err := contents.CopyMeta(old, f, changed)
	if err != nil {
		return err
	}
	r.dropped = dropped
	const setID = 0o6000
	own := h.Uid == os.Geteuid() && h.Mode&setID == 0
	for _, l := range lost {
		switch {
		case isCopy:
		case !own || !strings.HasPrefix(l, contents.LostGroup):
			return fmt.Errorf("keep %v: %w", l, fs.ErrPermission)
		default:
			p.out.Warnings = append(p.out.Warnings, fmt.Sprintf("%s: not kept: %v (needs root)", r.from, l))
		}
	}
	p.warnCopy(isCopy && len(lost) > 0)
	if err := r.dir.Chtimes(r.temp, h.AccessTime, h.ModTime); err != nil {
		return err
	}
	return f.Sync()
}

// begin notes that a file gets a replacement; nil says that it has one already.
func (p *patchRun) begin(root *os.Root, name string) (*replacement, error) {
	full := filepath.Join(root.Name(), filepath.FromSlash(name))
	if p.finals[full] {
		return nil, nil
	}
	p.finals[full] = true
	dir, base := filepath.Dir(full), filepath.Base(full)
	at := p.dirs[dir]
	if at == nil {
		var err error
		if at, err = openDirectory(root, path.Dir(name)); err != nil {
			return nil, contents.WrapPath(full, err)
		}
		p.dirs[dir] = at
	}
	r := &replacement{dir: at, temp: atomicfile.TempName(base), final: base}
	p.pending = append(p.pending, r)
	return r, nil
}

func (p *patchRun) commit() error {
	for _, r := range p.pending {
		if r.done {
			continue
		}
		if err := r.dir.Rename(r.temp, r.final); err != nil {
			return contents.WrapPath(filepath.Join(r.dir.Name(), r.final), err)
		}
		r.done = true
	}
	for _, dir := range p.dirs {
		_ = dir.Chtimes(".", time.Time{}, dir.modified)                         // only its owner may
		if err := dir.self.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // which a file system without it returns
			return err
		}
	}
	return nil
}

// discard removes what was written and not renamed. It is for defer.
func (p *patchRun) discard() {
	for _, r := range p.pending {
		if !r.done {
			r.dir.Remove(r.temp)
		}
	}
	for _, dir := range p.dirs {
		dir.Close()
	}
}

// noteOutside reports files that have names outside of the paths given: those keep the old content. Writing through
// them would change files that were not named (package caches are hard-linked into many places).
func (p *patchRun) noteOutside() {
	if !p.o.InPlace {
		return
	}
	names := map[contents.FileID]uint64{}
	for _, r := range p.pending {
		names[r.id]++
	}
	for _, r := range p.pending {
		if n := names[r.id]; n < r.links {
			progress.Note(p.o.Progress, "%s: more hard links outside the given paths keep the old content: %d", r.from, r.links-n)
		}
	}
}
