// Unpacking: the merged file system of an image as a folder, to run something in it.

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

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/rewriter"
)

// ownerMode is what a folder has at least, so that its owner can fill and remove it.
const ownerMode = 0o700

// Unpack writes the merged file system of a SOURCE into dir, an empty folder: folders, regular
// files, symlinks and hard links with their modes, owned by the caller; devices and fifos are
// left out, setuid and setgid bits too. A SOURCE that is a folder is copied as it is. Nothing
// is written outside of dir, whatever the names in the layers are.
func Unpack(ctx context.Context, source, dir string, o media.Options) (err error) {
	src, err := sources.Open(ctx, source, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if src.Image == nil {
		if fi, err := os.Stat(src.Path); err != nil {
			return err
		} else if !fi.IsDir() {
			return fmt.Errorf("%s: %w: neither an image nor a root file system", source, hinterr.ErrUnsupported)
		}
		return os.CopyFS(dir, os.DirFS(src.Path))
	}
	return unpackImage(ctx, src.Image, dir, false, o)
}

// writeRoot writes the merged file system of an image as the folder dir, which must not exist:
// whole or not at all. Root writes owners, setuid and setgid bits too; nobody else could.
func writeRoot(ctx context.Context, img v1.Image, dir string, o media.Options) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return hinterr.With(fmt.Errorf("%s: exists", dir), "name a folder that does not exist yet")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp := atomicfile.TempName(dir)
	if err := os.Mkdir(temp, ownerMode); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			patch.RemoveTree(temp)
		}
	}()
	if err := unpackImage(ctx, img, temp, os.Geteuid() == 0, o.WithDefaults()); err != nil {
		return err
	}
	return os.Rename(temp, dir)
}

// unpackImage writes the merged file system into an empty folder.
func unpackImage(ctx context.Context, img v1.Image, dir string, owners bool, o media.Options) error {
	s := contents.NewSession(0, o.Progress, rewriter.Options{})
	defer s.Close()
	t, err := s.Image(ctx, img)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacking{root: root, owners: owners, files: map[place]*unpackedFile{}}
	t.Walk(u.note)
	if u.err != nil {
		return u.err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for n, l := range layers {
		if err := u.layer(ctx, n, l, s.Progress); err != nil {
			return err
		}
	}
	return u.closeFolders(t.Root)
}

// place is where a member stands: the number of its layer, and its own in there.
type place struct{ layer, number int }

// unpackedFile is a regular file that is to come: its visible names, and what it has beside.
type unpackedFile struct {
	names []string
	meta  *contents.Meta
}

// unpacking is one merged file system on its way into a folder.
type unpacking struct {
	root    *os.Root
	owners  bool // as in the image; else all is the caller's
	files   map[place]*unpackedFile
	folders []string
	metas   []*contents.Meta // of the folders
	err     error
}

// note makes folders and symlinks, and notes regular files: their contents come by layers.
func (u *unpacking) note(name string, k *contents.Node) {
	if u.err != nil {
		return
	}
	switch k.Kind {
	case contents.KindDir:
		u.folders, u.metas = append(u.folders, name), append(u.metas, &k.Meta)
		u.err = u.root.Mkdir(name, ownerMode)
	case contents.KindSymlink:
		if u.err = u.root.Symlink(k.Inode.Link, name); u.err == nil && u.owners {
			u.err = u.root.Lchown(name, k.Meta.UID, k.Meta.GID)
		}
	case contents.KindFile, contents.KindPool:
		at := place{k.Inode.Layer, k.Number}
		if u.files[at] == nil {
			u.files[at] = &unpackedFile{meta: &k.Meta}
		}
		u.files[at].names = append(u.files[at].names, name)
	}
}

// layer writes the visible files of layer number n.
func (u *unpacking) layer(ctx context.Context, n int, l v1.Layer, p progress.Reporter) error {
	if !u.needs(n) {
		return nil
	}
	ls, err := blob.OpenLayer(ctx, l, p)
	if err != nil {
		return err
	}
	defer ls.Close()
	tr := blob.NewMemberReader(ls)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return ls.Finish()
		}
		if err != nil {
			return ls.Wrap(err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f := u.files[place{n, h.Number}]; f != nil {
			if err := u.file(f, tr); err != nil {
				return ls.Wrap(err)
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
func (u *unpacking) file(file *unpackedFile, r io.Reader) error {
	name := file.names[0]
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err == nil {
		err = u.adorn(name, file.meta, 0)
	}
	for _, other := range file.names[1:] {
		if err == nil {
			err = u.root.Link(name, other)
		}
	}
	return err
}

// specialModes are the mode bits above the permissions, as tar and as Go have them.
var specialModes = map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}

// adorn gives a file or folder its owner, mode and time; least is what the caller, as owner,
// needs of the mode. Changing the owner clears setuid, so the mode comes behind it.
func (u *unpacking) adorn(name string, m *contents.Meta, least fs.FileMode) error {
	mode := fs.FileMode(m.Mode)&fs.ModePerm | least
	if u.owners {
		mode = fs.FileMode(m.Mode) & fs.ModePerm
		for bit, flag := range specialModes {
			if m.Mode&bit != 0 {
				mode |= flag
			}
		}
		if err := u.root.Lchown(name, m.UID, m.GID); err != nil {
			return err
		}
	}
	if err := u.root.Chmod(name, mode); err != nil {
		return err
	}
	return u.root.Chtimes(name, m.Mtime, m.Mtime)
}

// closeFolders gives folders what they have beside their names, the inner ones first.
func (u *unpacking) closeFolders(top *contents.Node) error {
	for i, name := range slices.Backward(u.folders) {
		if err := u.adorn(name, u.metas[i], ownerMode); err != nil {
			return err
		}
	}
	return u.adorn(".", &top.Meta, ownerMode)
}
