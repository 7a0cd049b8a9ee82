package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/rewriter"
)

// Unpacking: the merged file system of an image as a folder, to run something in it.

// ownerMode is what a folder has at least, so that its owner can fill and remove it.
const ownerMode = 0o700

// Unpack writes the merged file system of a SOURCE into dir, an empty folder: folders, regular
// files, symlinks and hard links with their modes, owned by the caller; devices and fifos are
// left out, setuid and setgid bits too. A SOURCE that is a folder is copied as it is. Nothing
// is written outside of dir, whatever the names in the layers are.
func Unpack(ctx context.Context, source, dir string, o MediaOptions) (err error) {
	src, err := Open(ctx, source, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if src.Image == nil {
		if fi, err := os.Stat(src.Path); err != nil {
			return err
		} else if !fi.IsDir() {
			return fmt.Errorf("%s: %w: neither an image nor a root file system", source, ErrUnsupported)
		}
		return os.CopyFS(dir, os.DirFS(src.Path))
	}
	s := newSession(0, o.Progress, rewriter.Options{})
	defer s.Close()
	t, err := s.image(ctx, src.Image)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacking{root: root, files: map[place][]string{}}
	t.walk(u.note)
	if u.err != nil {
		return u.err
	}
	layers, err := src.Image.Layers()
	if err != nil {
		return err
	}
	for n, l := range layers {
		if err := u.layer(ctx, n, l, s.progress); err != nil {
			return err
		}
	}
	return u.closeFolders()
}

// place is where a member stands: the number of its layer, and its own in there.
type place struct{ layer, number int }

// unpacking is one merged file system on its way into a folder.
type unpacking struct {
	root    *os.Root
	files   map[place][]string // the visible names of regular files
	folders []string
	modes   []fs.FileMode
	err     error
}

// note makes folders and symlinks, and notes regular files: their contents come by layers.
func (u *unpacking) note(name string, k *node) {
	if u.err != nil {
		return
	}
	switch k.kind {
	case kindDir:
		u.folders, u.modes = append(u.folders, name), append(u.modes, fs.FileMode(k.meta.mode)&fs.ModePerm|ownerMode)
		u.err = u.root.Mkdir(name, ownerMode)
	case kindSymlink:
		u.err = u.root.Symlink(k.inode.link, name)
	case kindFile, kindPool:
		at := place{k.inode.layer, k.number}
		u.files[at] = append(u.files[at], name)
	}
}

// layer writes the visible files of layer number n.
func (u *unpacking) layer(ctx context.Context, n int, l v1.Layer, p Progress) error {
	if !u.needs(n) {
		return nil
	}
	ls, err := openLayer(ctx, l, p)
	if err != nil {
		return err
	}
	defer ls.Close()
	tr := newMemberReader(ls)
	for {
		h, err := tr.next()
		if errors.Is(err, io.EOF) {
			return ls.finish()
		}
		if err != nil {
			return ls.wrap(err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if names := u.files[place{n, h.number}]; len(names) > 0 {
			if err := u.file(names, h, tr); err != nil {
				return ls.wrap(err)
			}
		}
	}
}

// needs reports whether a file of layer number n is visible.
func (u *unpacking) needs(n int) bool {
	for at := range u.files {
		if at.layer == n {
			return true
		}
	}
	return false
}

// file writes one file under its first name, and links the others to it.
func (u *unpacking) file(names []string, h *tarMember, r io.Reader) error {
	f, err := u.root.OpenFile(names[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode)&fs.ModePerm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	err = errors.Join(err, f.Chmod(fs.FileMode(h.Mode)&fs.ModePerm), f.Close())
	for _, name := range names[1:] {
		if err == nil {
			err = u.root.Link(names[0], name)
		}
	}
	return err
}

// closeFolders gives folders their modes, the inner ones first.
func (u *unpacking) closeFolders() error {
	for i, name := range slices.Backward(u.folders) {
		if err := u.root.Chmod(name, u.modes[i]); err != nil {
			return err
		}
	}
	return nil
}
