// Unpacks the merged file system of an image into a directory.

package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/internal/sparse"
	"vfix.dev/vfix/rewriter/patch"
)

// ownerMode is the minimum mode of a directory whose owner is not root, so that the owner can fill and remove it.
const ownerMode = 0o700

// CheckRootDest returns an error if a root filesystem cannot be written to a directory, which must be missing or
// empty.
func CheckRootDest(dir string) error {
	fi, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !fi.IsDir():
		err = fmt.Errorf("%s: exists and is not a directory", dir)
	case err == nil:
		var entries []os.DirEntry
		if entries, err = os.ReadDir(dir); err == nil && len(entries) == 0 {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s: exists and is not empty", dir)
		}
	}
	return hinterr.With(err, "name a directory that does not exist yet")
}

// CheckNotInside returns an error if a DEST is inside the directory of its source.
func CheckNotInside(src *media.Source, dest media.Ref) error {
	if dest.Transport == media.Dir && src.Image == nil && Inside(src.Path, dest.Name) {
		return ErrInside(dest.Name, src.Path)
	}
	return nil
}

// ErrInside returns the error for an output that is inside its input.
func ErrInside(out, in string) error {
	return hinterr.With(fmt.Errorf("%s is inside %s, which is copied there", out, in), "name a directory outside of it")
}

// Inside reports whether name, which need not exist, is in the directory dir.
func Inside(dir, name string) bool {
	paths := [...]string{dir, filepath.Dir(filepath.Clean(name))}
	for i, p := range paths {
		real, _, err := rootpath.Real(p)
		if err == nil {
			paths[i], err = filepath.Abs(real)
		}
		if err != nil {
			return false
		}
	}
	rel, err := filepath.Rel(paths[0], paths[1])
	return err == nil && filepath.IsLocal(rel)
}

// putRoot writes the merged file system of an image as a directory, completely or not at all. As root it keeps
// owners, extended attributes and devices; otherwise the caller owns all files, and a warning lists the losses.
func putRoot(ctx context.Context, dest media.Ref, r media.Result, o media.Options) (st media.Stored, err error) {
	if err := CheckRootDest(dest.Name); err != nil {
		return st, err // before a lock file beside it exists
	}
	fail := func(err error) (media.Stored, error) { return st, fmt.Errorf("directory %s: %w", dest.Name, err) }
	unlock, err := atomicfile.Lock(ctx, dest.Name, o.Progress)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	if err := CheckRootDest(dest.Name); err != nil {
		return st, err
	}
	img := r.Image
	if d, ok := img.(withAddedLayer); ok {
		if d.Traced() {
			return st, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: a root filesystem has no entrypoint to run under vfix-trace", dest),
				"omit the fallback: --fallback never")
		}
		img = d.Base()
	}
	u := &unpacking{whole: true, top: madeOf(img).top}
	err = atomicfile.WriteDir(dest.Name, ownerMode, func(temp string) error { return u.image(ctx, r.Image, temp, o) })
	if err != nil {
		return fail(err)
	}
	st = media.Stored{Reference: dest.String()}
	if text := u.lost.Warning(); text != "" {
		st.Warnings = []string{text}
	}
	return st, nil
}

// Unpack writes the merged file system of an image into dir, an empty directory, to run a program in it: the
// caller owns all files; devices, fifos, extended attributes, setuid and setgid bits are omitted. It writes
// nothing outside of dir, whatever the names in the layers are.
func Unpack(ctx context.Context, img v1.Image, dir string, o media.Options) error {
	return (&unpacking{}).image(ctx, img, dir, o)
}

// unpacking is the unpacking of one merged file system into a directory.
type unpacking struct {
	root  *os.Root
	whole bool           // keep owners, xattrs and devices as far as the caller may; else the caller owns all
	top   *contents.Meta // of the root directory; nil: from the tree
	least fs.FileMode    // minimum mode of directories whose owner is not root
	// replaced returns other content and metadata for a file of the tree; nil: all files are written unchanged.
	replaced Replacing
	files    map[*contents.Inode][]string // names of the regular files that have no content yet
	lost     contents.Lost
}

func (u *unpacking) image(ctx context.Context, img v1.Image, dir string, o media.Options) error {
	s := contents.NewSession(0, o.Progress, patch.Options{})
	defer s.Close()
	var err error
	if u.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer u.root.Close()
	staged := &stage{u.root, ".vfix-unpacking"}
	if err := u.root.Mkdir(staged.name, ownerMode); err != nil {
		return err
	}
	s.Take = staged.take
	t, err := s.Image(ctx, img)
	if err != nil {
		return err
	}
	if err := staged.leave(t); err != nil {
		return err
	}
	u.least = ownerMode
	return u.tree(ctx, t, staged)
}

// Replacing returns the content and metadata to write for a file of a tree; r is its content, an *os.File for a
// directory on disk.
type Replacing func(i *contents.Inode, r io.Reader) (io.Reader, *contents.Meta, error)

// WriteTree writes a tree into an empty directory, with all metadata that the caller may set, and returns the
// losses.
func WriteTree(ctx context.Context, t *contents.Tree, dir string, replaced Replacing) (contents.Lost, error) {
	u := &unpacking{whole: true, replaced: replaced}
	var err error
	if u.root, err = os.OpenRoot(dir); err != nil {
		return u.lost, err
	}
	defer u.root.Close()
	return u.lost, u.tree(ctx, t, nil)
}

// tree writes a tree: directories, then symlinks and devices, then files, in the order of the layers. staged has
// the contents of some files already; nil for none.
func (u *unpacking) tree(ctx context.Context, t *contents.Tree, staged *stage) (err error) {
	if u.top == nil {
		u.top = &t.Root.Meta
	}
	dirs, metas := []string{"."}, []*contents.Meta{u.top}
	t.Walk(func(name string, k *contents.Node) {
		if k.Kids != nil && err == nil {
			dirs, metas = append(dirs, name), append(metas, &k.Meta)
			err = u.root.Mkdir(name, ownerMode)
		}
	})
	u.files = map[*contents.Inode][]string{}
	for _, v := range t.Files(func(*contents.Inode) bool { return true }) {
		if v.HasContent() {
			u.files[v.Inode] = v.Names
		} else if err == nil {
			err = u.other(v)
		}
	}
	if err == nil && staged != nil {
		err = staged.place(t, u.files, u.finish)
	}
	if err == nil {
		err = t.Read(ctx, slices.Collect(maps.Keys(u.files)), func(i *contents.Inode, r io.Reader) error { return u.file(ctx, i, r) })
	}
	// Owners, modes and times of directories come last, inner directories first.
	for i, name := range slices.Backward(dirs) {
		if err == nil {
			err = u.closeDir(name, metas[i])
		}
	}
	return err
}

// other creates a symlink, device or fifo, and links to it; if it cannot be created, its next name is tried.
func (u *unpacking) other(v contents.Target) error {
	first := ""
	for _, name := range v.Names {
		if first != "" {
			if err := u.root.Link(first, name); err != nil {
				return err
			}
			continue
		}
		var lost []contents.Loss
		var err error
		switch {
		case v.Kind == contents.KindSymlink:
			if err = u.root.Symlink(v.Link, name); err == nil && u.whole {
				lost, err = v.Meta.GiveLink(u.root, name)
			}
		case u.whole:
			lost, err = v.MakeNode(u.root, name)
		}
		if err != nil {
			return contents.WrapPath(name, err)
		}
		u.lost.Add(name, lost)
		if _, err := u.root.Lstat(name); err == nil {
			first = name
		}
	}
	return nil
}

// writeNew writes a new file, which stays open.
func writeNew(ctx context.Context, root *os.Root, name string, r io.Reader) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := sparse.Copy(f, blob.Reading{Ctx: ctx, Reader: r}); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// file writes one file under its first name, and links the others to it.
func (u *unpacking) file(ctx context.Context, i *contents.Inode, r io.Reader) error {
	meta := &i.Meta
	if u.replaced != nil {
		var err error
		if r, meta, err = u.replaced(i, r); err != nil {
			return err
		}
	}
	f, err := writeNew(ctx, u.root, u.files[i][0], r)
	if err != nil {
		return err
	}
	return u.finish(u.files[i], meta, f)
}

// finish closes a file that has its content and its first name, and sets its metadata and other names.
func (u *unpacking) finish(names []string, m *contents.Meta, f *os.File) error {
	err := errors.Join(u.adorn(names[0], f, m, 0), f.Close())
	for _, other := range names[1:] {
		if err == nil {
			err = u.root.Link(names[0], other)
		}
	}
	return err
}

// adorn sets the owner, mode, xattrs and time of an open file or directory; least are the mode bits that the
// caller, as owner, needs.
func (u *unpacking) adorn(name string, f *os.File, m *contents.Meta, least fs.FileMode) error {
	if !u.whole {
		if err := f.Chmod(fs.FileMode(m.Mode).Perm() | least); err != nil {
			return err
		}
		return u.root.Chtimes(name, m.Mtime, m.Mtime)
	}
	lost, err := m.Give(f)
	if err != nil {
		return contents.WrapPath(name, err)
	}
	if mode := fs.FileMode(m.Mode).Perm(); mode|least != mode && os.Geteuid() != 0 {
		lost = append(lost, contents.Loss{Kind: "mode", Value: fmt.Sprintf("%#o", mode)})
		if err := f.Chmod(mode | least); err != nil {
			return err
		}
	}
	u.lost.Add(name, lost)
	return u.root.Chtimes(name, m.Mtime, m.Mtime)
}

func (u *unpacking) closeDir(name string, m *contents.Meta) error {
	f, err := u.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return u.adorn(name, f, m, u.least)
}
