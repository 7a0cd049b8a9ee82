// Writing a tree into a directory.

package contents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/sparse"
)

// Replacing returns the content and metadata to write for a file of a tree; r is its content, an *os.File for a
// directory on disk.
type Replacing func(i *Inode, r io.Reader) (io.Reader, *Meta, error)

// WriteTree writes a tree into an empty directory, with all metadata that the caller may set, and returns what it could
// not set.
func WriteTree(ctx context.Context, t *Tree, dir string, replaced Replacing) (Lost, error) {
	w := &treeWriter{replaced: replaced, files: map[*Inode][]string{}}
	var err error
	if w.root, err = os.OpenRoot(dir); err != nil {
		return w.lost, err
	}
	defer w.root.Close()
	return w.lost, w.write(ctx, t)
}

type treeWriter struct {
	root     *os.Root
	replaced Replacing
	files    map[*Inode][]string // names of the regular files
	lost     Lost
}

// ownerMode is the mode of a directory while it is filled.
const ownerMode = 0o700

// write writes directories, then symlinks and devices, then files, in the order of the layers. Owners, modes and times
// of directories come last, inner directories first.
func (w *treeWriter) write(ctx context.Context, t *Tree) (err error) {
	dirs, metas := []string{"."}, []*Meta{&t.Root.Meta}
	t.Walk(func(name string, k *Node) {
		if k.Kids != nil && err == nil {
			dirs, metas = append(dirs, name), append(metas, &k.Meta)
			err = w.root.Mkdir(name, ownerMode)
		}
	})
	for _, v := range t.Files(func(*Inode) bool { return true }) {
		if v.HasContent() {
			w.files[v.Inode] = v.Names
		} else if err == nil {
			err = w.other(v)
		}
	}
	if err == nil {
		err = t.Read(ctx, slices.Collect(maps.Keys(w.files)), func(i *Inode, r io.Reader) error { return w.file(ctx, i, r) })
	}
	for i, name := range slices.Backward(dirs) {
		if err == nil {
			err = w.closeDir(name, metas[i])
		}
	}
	return err
}

// other creates a symlink, device or fifo, and links to it; if it cannot be created, its next name is tried.
func (w *treeWriter) other(v Target) error {
	first := ""
	for _, name := range v.Names {
		if first != "" {
			if err := w.root.Link(first, name); err != nil {
				return err
			}
			continue
		}
		var lost []Loss
		var err error
		switch {
		case v.Kind == KindSymlink:
			if err = w.root.Symlink(v.Link, name); err == nil {
				lost, err = v.Meta.GiveLink(w.root, name)
			}
		default:
			lost, err = v.MakeNode(w.root, name)
		}
		if err != nil {
			return WrapPath(name, err)
		}
		w.lost.Add(name, lost)
		if _, err := w.root.Lstat(name); err == nil {
			first = name
		}
	}
	return nil
}

// file writes one file under its first name, and links the others to it.
func (w *treeWriter) file(ctx context.Context, i *Inode, r io.Reader) error {
	r, meta, err := w.replaced(i, r)
	if err != nil {
		return err
	}
	names := w.files[i]
	f, err := w.root.OpenFile(names[0], os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = sparse.Copy(f, blob.Reading{Ctx: ctx, Reader: r}); err == nil {
		err = w.adorn(names[0], f, meta, 0)
	}
	err = errors.Join(err, f.Close())
	for _, other := range names[1:] {
		if err == nil {
			err = w.root.Link(names[0], other)
		}
	}
	return err
}

// adorn sets the owner, mode, xattrs and time of an open file or directory; least are the mode bits that the caller, as
// owner, needs.
func (w *treeWriter) adorn(name string, f *os.File, m *Meta, least fs.FileMode) error {
	lost, err := m.Give(f)
	if err != nil {
		return WrapPath(name, err)
	}
	if mode := fs.FileMode(m.Mode).Perm(); mode|least != mode && os.Geteuid() != 0 {
		lost = append(lost, Loss{Kind: "mode", Value: fmt.Sprintf("%#o", mode)})
		if err := f.Chmod(mode | least); err != nil {
			return err
		}
	}
	w.lost.Add(name, lost)
	return w.root.Chtimes(name, m.Mtime, m.Mtime)
}

func (w *treeWriter) closeDir(name string, m *Meta) error {
	f, err := w.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.adorn(name, f, m, 0)
}
