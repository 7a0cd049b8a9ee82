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
	return unpackImage(ctx, src.Image, dir, false, o)
}

// writeRoot writes the merged file system of an image as the folder dir, which must not exist:
// whole or not at all. Root writes owners, setuid and setgid bits too; nobody else could.
func writeRoot(ctx context.Context, img v1.Image, dir string, o MediaOptions) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return withHint(fmt.Errorf("%s: exists", dir), "name a folder that does not exist yet")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp := tempName(dir)
	if err := os.Mkdir(temp, ownerMode); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			removeTree(temp)
		}
	}()
	if err := unpackImage(ctx, img, temp, os.Geteuid() == 0, o.withDefaults()); err != nil {
		return err
	}
	return os.Rename(temp, dir)
}

// unpackImage writes the merged file system into an empty folder.
func unpackImage(ctx context.Context, img v1.Image, dir string, owners bool, o MediaOptions) error {
	s := newSession(0, o.Progress, rewriter.Options{})
	defer s.Close()
	t, err := s.image(ctx, img)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacking{root: root, owners: owners, files: map[place]*unpackedFile{}}
	t.walk(u.note)
	if u.err != nil {
		return u.err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for n, l := range layers {
		if err := u.layer(ctx, n, l, s.progress); err != nil {
			return err
		}
	}
	return u.closeFolders(t.root)
}

// place is where a member stands: the number of its layer, and its own in there.
type place struct{ layer, number int }

// unpackedFile is a regular file that is to come: its visible names, and what it has beside.
type unpackedFile struct {
	names []string
	meta  *meta
}

// unpacking is one merged file system on its way into a folder.
type unpacking struct {
	root    *os.Root
	owners  bool // as in the image; else all is the caller's
	files   map[place]*unpackedFile
	folders []string
	metas   []*meta // of the folders
	err     error
}

// note makes folders and symlinks, and notes regular files: their contents come by layers.
func (u *unpacking) note(name string, k *node) {
	if u.err != nil {
		return
	}
	switch k.kind {
	case kindDir:
		u.folders, u.metas = append(u.folders, name), append(u.metas, &k.meta)
		u.err = u.root.Mkdir(name, ownerMode)
	case kindSymlink:
		if u.err = u.root.Symlink(k.inode.link, name); u.err == nil && u.owners {
			u.err = u.root.Lchown(name, k.meta.uid, k.meta.gid)
		}
	case kindFile, kindPool:
		at := place{k.inode.layer, k.number}
		if u.files[at] == nil {
			u.files[at] = &unpackedFile{meta: &k.meta}
		}
		u.files[at].names = append(u.files[at].names, name)
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
		if f := u.files[place{n, h.number}]; f != nil {
			if err := u.file(f, tr); err != nil {
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
func (u *unpacking) adorn(name string, m *meta, least fs.FileMode) error {
	mode := fs.FileMode(m.mode)&fs.ModePerm | least
	if u.owners {
		mode = fs.FileMode(m.mode) & fs.ModePerm
		for bit, flag := range specialModes {
			if m.mode&bit != 0 {
				mode |= flag
			}
		}
		if err := u.root.Lchown(name, m.uid, m.gid); err != nil {
			return err
		}
	}
	if err := u.root.Chmod(name, mode); err != nil {
		return err
	}
	return u.root.Chtimes(name, m.mtime, m.mtime)
}

// closeFolders gives folders what they have beside their names, the inner ones first.
func (u *unpacking) closeFolders(top *node) error {
	for i, name := range slices.Backward(u.folders) {
		if err := u.adorn(name, u.metas[i], ownerMode); err != nil {
			return err
		}
	}
	return u.adorn(".", &top.meta, ownerMode)
}
