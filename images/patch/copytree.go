// The patched copy of a whole directory.

package patch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"vfix.dev/vfix/images/source"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
)

// copyTree writes a patched copy of the directory to the output, which must not exist. The copy
// gets its name when it is complete.
func (p *patchRun) copyTree(ctx context.Context, d *contents.Disk, t *contents.Tree, hits []contents.Target) error {
	out := p.o.Output
	if _, err := os.Lstat(out); err == nil {
		return hinterr.With(fmt.Errorf("%s: exists", out), "name a directory that does not exist yet")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if source.Inside(d.Root.Name(), out) {
		return source.ErrInside(out, d.Path)
	}
	patched := map[*contents.Inode]*contents.Target{}
	for n := range hits {
		patched[hits[n].Inode] = &hits[n]
	}
	const private = 0o700 // until it has its owner
	return atomicfile.WriteDir(out, private, func(temp string) (err error) {
		p.lost, err = contents.WriteTree(ctx, t, temp, func(i *contents.Inode, r io.Reader) (io.Reader, *contents.Meta, error) {
			if h := patched[i]; h != nil {
				return patchedCopy(h, r.(*os.File))
			}
			return r, &i.Meta, nil
		})
		return err
	})
}

// patchedCopy is what is written for a patched file of a directory.
func patchedCopy(h *contents.Target, f *os.File) (io.Reader, *contents.Meta, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if was := h.Disk.Info; fi.Size() != was.Size() || !fi.ModTime().Equal(was.ModTime()) {
		return nil, nil, errors.New("changed while it was read")
	}
	h.WarnDropped(h.Meta.Dropped(f))
	return h.Plan.Apply(f), h.Meta.Unmarked(), nil
}
