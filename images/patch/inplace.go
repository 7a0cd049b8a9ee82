// Patching in place: every new file is written beside the old one first. Only when all of
// them are on the disk do they take the old ones' names, so that an error or ^C before
// that leaves everything unchanged and no files behind. A running program or a mapped library
// keeps its old inode.

package patch

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/internal/progress"
)

// replacement is a file written under a temporary name that waits for its final one.
type replacement struct {
	root        *os.Root        // the directory it is in, one of patchRun.roots
	temp, final string          // relative to root
	id          contents.FileID // of the file it replaces, if that has several names
	done        bool
	dropped     []string // the marks that it does not keep
}

// replace writes the patched copy of a file of the tree, and a further name of the copy
// for each further name that the file has in the tree.
func (p *patchRun) replace(ctx context.Context, d *contents.Disk, h contents.Target) error {
	first, ok := p.written[h.Disk.ID]
	ok = ok && h.Disk.Links > 1
	names := h.Names
	if !ok {
		var err error
		first, err = p.prepare(d.Root, names[0], h.Disk.Info, func(w, r *os.File) error {
			n, err := filecopy.CopySparse(w, blob.Reading{Ctx: ctx, Reader: h.Plan.Apply(r)})
			if err == nil && n != h.Plan.Size {
				err = fmt.Errorf("patched file: got %d bytes, want %d", n, h.Plan.Size)
			}
			return err
		})
		if err != nil || first == nil {
			return err
		}
		h.WarnDropped(first.dropped)
		names = names[1:]
		if h.Disk.Links > 1 {
			p.written[h.Disk.ID] = first
			p.outsides = append(p.outsides, outside{h.Disk.ID, d.Full(h.Names[0]), h.Disk.Links})
		}
	}
	for _, name := range names {
		if err := p.link(d.Root, name, first); err != nil {
			return fmt.Errorf("%s: %w", d.Full(name), err)
		}
	}
	return nil
}

// prepare writes the file that is to replace name, whose content write makes from the old
// one, with the old one's owner, mode, times and xattrs. It is nil for a name that has its
// replacement already.
func (p *patchRun) prepare(root *os.Root, name string, seen fs.FileInfo, write func(w, r *os.File) error) (_ *replacement, err error) {
	id, _ := contents.Identify(seen)
	r, err := p.begin(root, name, id)
	if r == nil || err != nil {
		return nil, err
	}
	old, err := r.root.OpenFile(r.final, os.O_RDONLY|contents.OpenNoBlock, 0)
	if err != nil {
		return nil, err
	}
	defer old.Close()
	fi, err := old.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(fi, seen) || fi.Size() != seen.Size() || !fi.ModTime().Equal(seen.ModTime()) {
		return nil, fmt.Errorf("changed while it was read")
	}
	const private = 0o600 // until it has its owner
	f, err := r.root.OpenFile(r.temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := write(f, old); err != nil {
		return nil, err
	}
	if r.dropped, err = p.keepMeta(r.final, fi, old, f); err != nil {
		return nil, err
	}
	if err := contents.KeepTimes(r.root, r.temp, old); err != nil {
		return nil, err
	}
	return r, f.Sync()
}

// keepMeta gives the file that replaces old what that has beside its content, and returns the
// marks that it does not keep. A group that only root may give is left out, with a warning,
// where the file is the caller's and has no setuid or setgid bit.
func (p *patchRun) keepMeta(name string, fi fs.FileInfo, old, f *os.File) (dropped []string, err error) {
	const setID = fs.ModeSetuid | fs.ModeSetgid
	own := int(contents.DiskMeta(fi).UID) == os.Geteuid() && fi.Mode()&setID == 0
	dropped, lost, err := contents.CopyMeta(old, f, true)
	if i := slices.IndexFunc(lost, func(l contents.Loss) bool { return !own || l.Kind != contents.LostGroup }); i >= 0 {
		return nil, fmt.Errorf("keep %v: %w", lost[i], fs.ErrPermission)
	}
	p.warnLost(name, lost)
	return dropped, err
}

// link gives a written file one more name.
func (p *patchRun) link(root *os.Root, name string, first *replacement) error {
	r, err := p.begin(root, name, first.id)
	if r == nil || err != nil {
		return err
	}
	return contents.Link(first.root, first.temp, r.root, r.temp)
}

// begin notes that name gets a replacement; nil says that it has one already. Its root is
// the directory that name is in: a rename stays there.
func (p *patchRun) begin(root *os.Root, name string, id contents.FileID) (*replacement, error) {
	key := filepath.Join(root.Name(), filepath.FromSlash(name))
	if p.finals[key] {
		return nil, nil
	}
	p.finals[key] = true
	dir, base := path.Split(name)
	at := p.roots[filepath.Dir(key)]
	if at == nil {
		var err error
		if at, err = root.OpenRoot(path.Clean("./" + dir)); err != nil {
			return nil, err
		}
		p.roots[filepath.Dir(key)] = at
	}
	r := &replacement{root: at, temp: atomicfile.TempName(base), final: base, id: id}
	p.pending = append(p.pending, r)
	return r, nil
}

func (p *patchRun) commit() error {
	for _, r := range p.pending {
		if r.done {
			continue
		}
		if err := r.root.Rename(r.temp, r.final); err != nil {
			return err
		}
		r.done = true
	}
	for _, root := range p.roots {
		if err := contents.SyncDir(root, "."); err != nil {
			return err
		}
	}
	return nil
}

// discard removes what was written and not renamed. It is for defer.
func (p *patchRun) discard() {
	for _, r := range p.pending {
		if !r.done {
			r.root.Remove(r.temp)
		}
	}
	for _, root := range p.roots {
		root.Close()
	}
}

// noteOutside reports files that have names outside of the paths given: those keep the
// old content. Writing through them would change files that were not named (package
// caches are hard-linked into many places).
func (p *patchRun) noteOutside() {
	for _, o := range p.outsides {
		inside := uint64(0)
		for _, r := range p.pending {
			if r.id == o.id {
				inside++
			}
		}
		if inside < o.links {
			progress.Note(p.o.Progress, "%s: more hard links outside the given paths keep the old content: %d", o.name, o.links-inside)
		}
	}
}
