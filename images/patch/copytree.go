// The patched copy of a whole folder.

package patch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/sparse"
)

// treeCopy copies a folder with everything in it to a new place, patching on the way.
type treeCopy struct {
	ctx      context.Context
	s        *contents.Session
	from, to *os.Root
	hits     map[string]contents.Target // by each of their names
	first    map[contents.FileID]string // the name under which a hard-linked file was copied
	progress progress.Reporter
	lost     contents.Lost
}

// copyTree writes a patched copy of the folder to the output, which must not exist. The copy
// gets its name when it is whole.
func (p *patchRun) copyTree(ctx context.Context, d *contents.DiskTree, hits []contents.Target) (err error) {
	out := p.o.Output
	if _, err := os.Lstat(out); err == nil {
		return hinterr.With(fmt.Errorf("%s: exists", out), "name a directory that does not exist yet")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if sources.Inside(d.Root.Name(), out) {
		return sources.ErrInside(out, d.Path)
	}
	unlock, err := atomicfile.Lock(ctx, out, p.o.Progress)
	if err != nil {
		return err
	}
	defer unlock()
	temp := atomicfile.HeldName(out)
	const private = 0o700 // until it has its owner
	if err := os.Mkdir(temp, private); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			atomicfile.RemoveTree(temp)
		}
	}()
	to, err := os.OpenRoot(temp)
	if err != nil {
		return err
	}
	defer to.Close()
	c := &treeCopy{ctx: ctx, s: p.s, from: d.Root, to: to, hits: map[string]contents.Target{}, first: map[contents.FileID]string{}, progress: p.o.Progress}
	for _, h := range hits {
		for _, name := range h.Names {
			c.hits[name] = h
		}
	}
	if err := c.folder("."); err != nil {
		return err
	}
	if text := c.lost.Warning(); text != "" {
		p.out.Warnings = append(p.out.Warnings, text)
	}
	return os.Rename(temp, out)
}

// folder copies a folder that exists at the target; its metadata comes last.
func (c *treeCopy) folder(name string) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	from, err := c.from.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	if !(contents.MountFilter{Root: c.from}).Special(name) {
		entries, err := from.ReadDir(-1)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := c.entry(filepath.ToSlash(filepath.Join(name, e.Name())), e.Type()); err != nil {
				return err
			}
		}
	}
	to, err := c.to.Open(name)
	if err != nil {
		return err
	}
	defer to.Close()
	lost, err := contents.CopyOwnMeta(from, to)
	if err != nil {
		return contents.WrapPath(name, err)
	}
	c.lost.Add(name, lost)
	return contents.KeepTimes(c.to, name, from)
}

func (c *treeCopy) entry(name string, t fs.FileMode) error {
	const private = 0o700
	switch {
	case t.IsDir():
		if err := c.to.Mkdir(name, private); err != nil {
			return err
		}
		return c.folder(name)
	case t.IsRegular():
		return contents.WrapPath(name, c.file(name))
	case t&fs.ModeSocket != 0:
		progress.Note(c.progress, "%s: a socket is not copied", name)
		return nil
	}
	fi, err := c.from.Lstat(name)
	if err != nil {
		return err
	}
	if linked, err := c.link(name, fi); linked {
		return err
	}
	if t&fs.ModeSymlink == 0 {
		lost, err := contents.CopyNode(c.to, name, fi)
		c.lost.Add(name, lost)
		return contents.WrapPath(name, err)
	}
	target, err := c.from.Readlink(name)
	if err != nil {
		return err
	}
	if err := c.to.Symlink(target, name); err != nil {
		return err
	}
	lost, err := contents.CopyLinkMeta(c.from, c.to, name, fi)
	c.lost.Add(name, lost)
	return contents.WrapPath(name, err)
}

// link makes name a hard link where another name of that file has been copied.
func (c *treeCopy) link(name string, fi fs.FileInfo) (linked bool, err error) {
	id, links := contents.Identify(fi)
	if links < 2 {
		return false, nil
	}
	if first, ok := c.first[id]; ok {
		return true, c.to.Link(first, name)
	}
	c.first[id] = name
	return false, nil
}

func (c *treeCopy) file(name string) error {
	from, err := c.from.OpenFile(name, os.O_RDONLY|contents.OpenNoBlock, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	fi, err := from.Stat()
	if err != nil {
		return err
	}
	if linked, err := c.link(name, fi); linked {
		return err
	}
	const private = 0o600
	to, err := c.to.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return err
	}
	defer to.Close()
	var in io.Reader = from
	h, patched := c.hits[name]
	if patched = patched && !h.Plan.Empty(); patched {
		if fi.Size() != h.Disk.Info.Size() || !fi.ModTime().Equal(h.Disk.Info.ModTime()) {
			return fmt.Errorf("changed while it was read")
		}
		in = h.Plan.Apply(from)
	}
	if _, err := sparse.Copy(to, blob.Reading{Ctx: c.ctx, Reader: in}); err != nil {
		return err
	}
	var dropped, lost []string
	if patched {
		dropped, lost, err = contents.CopyOwnPatchedMeta(from, to)
		h.WarnDropped(dropped)
	} else {
		lost, err = contents.CopyOwnMeta(from, to)
	}
	if err != nil {
		return err
	}
	c.lost.Add(name, lost)
	return contents.KeepTimes(c.to, name, from)
}
