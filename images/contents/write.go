// Writing a tree into a directory.

package contents

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/filecopy"
)

// Write writes the tree into an empty directory, with all metadata that the caller may set; lost reports that there is
// more.
func (t *Tree) Write(ctx context.Context, dir string) (lost bool, err error) {
	w := &treeWriter{}
	if w.root, err = os.OpenRoot(dir); err != nil {
		return false, err
	}
	defer w.root.Close()
	err = w.write(ctx, t)
	return w.lost, err
}

type treeWriter struct {
	root *os.Root
	lost bool // something that the caller may not set
}

// write writes directories, then symlinks and devices, then files, in the order of the layers. Owners, modes and times
// of directories come last, inner directories first.
func (w *treeWriter) write(ctx context.Context, t *Tree) error {
	const filling = 0o700
	dirs := slices.DeleteFunc(t.Names(), func(name string) bool { return !t.At(name).IsDir() })
	for _, name := range dirs[1:] {
		if err := w.root.Mkdir(name, filling); err != nil {
			return err
		}
	}
	for _, v := range t.Files(func(i *Inode) bool { return !i.HasContent() }) {
		if err := w.special(v); err != nil {
			return WrapPath(v.Names[0], err)
		}
	}
	err := t.Read(ctx, t.Files((*Inode).HasContent), func(v *Target, r io.Reader) error { return w.file(ctx, v, r) })
	for _, name := range slices.Backward(dirs) {
		if err == nil {
			err = w.adorn(cmp.Or(name, "."), t.At(name).Entry)
		}
	}
	return err
}

// file writes one file under its first name, and links the others to it.
func (w *treeWriter) file(ctx context.Context, v *Target, r io.Reader) error {
	const private = 0o600
	f, err := w.root.OpenFile(v.Names[0], os.O_RDWR|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return err
	}
	_, err = filecopy.CopySparse(f, blob.Reading{Ctx: ctx, Reader: r})
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := w.adorn(v.Names[0], v.Entry); err != nil {
		return err
	}
	return w.link(v.Names)
}

func (w *treeWriter) link(names []string) error {
	for _, other := range names[1:] {
		if err := w.root.Link(names[0], other); err != nil {
			return err
		}
	}
	return nil
}

// adorn sets the owner, mode, xattrs and time of a file or directory.
func (w *treeWriter) adorn(name string, e *Entry) error {
	f, err := w.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lost, err := e.give(f)
	if err != nil {
		return WrapPath(name, err)
	}
	w.lost = w.lost || len(lost) > 0
	return w.root.Chtimes(name, e.ModTime, e.ModTime)
}

// allowed returns an error, unless it is that the caller may not do what root may: that is a loss.
func (w *treeWriter) allowed(err error) error {
	if onlyRoot(err) {
		w.lost = true
		return nil
	}
	return err
}

// special creates a symlink, device or fifo, without xattrs, and links to it. A device that the caller may not create is
// omitted.
func (w *treeWriter) special(v *Target) (err error) {
	name := v.Names[0]
	path := filepath.Join(w.root.Name(), name)
	isLink := v.Typeflag == tar.TypeSymlink
	if isLink {
		err = w.root.Symlink(v.Linkname, name)
	} else {
		err = unix.Mknod(path, nodeTypes[v.Typeflag], int(unix.Mkdev(uint32(v.Devmajor), uint32(v.Devminor))))
	}
	if err != nil {
		return w.allowed(err)
	}
	w.lost = w.lost || len(v.PAXRecords) > 0
	if err := w.allowed(w.root.Lchown(name, v.Uid, v.Gid)); err != nil {
		return err
	}
	if !isLink { // links have no modes
		if err := w.root.Chmod(name, fs.FileMode(v.Mode).Perm()); err != nil {
			return err
		}
	}
	t := unix.NsecToTimespec(v.ModTime.UnixNano())
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return w.link(v.Names)
}

// nodeTypes maps tar type flags to types of devices and fifos.
var nodeTypes = map[byte]uint32{tar.TypeFifo: unix.S_IFIFO, tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK}

// WriteDirectory writes a directory, itself included, as a tar stream: with owners, modes, times, extended attributes
// and hard links, without sockets. A name that cannot be in a layer is an error.
func WriteDirectory(ctx context.Context, w io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tw := tar.NewWriter(w)
	linked := map[FileID]*Entry{}
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err := cmp.Or(err, context.Cause(ctx), source.MayBeInLayer(name)); err != nil {
			return err
		}
		if e.Type()&fs.ModeSocket != 0 {
			return nil
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		id, links := Identify(fi)
		if first := linked[id]; first != nil {
			return WrapPath(name, tw.WriteHeader(first.linkAs(name, first.Name)))
		}
		entry, err := writeEntry(ctx, tw, root, name, fi)
		if links > 1 && !e.IsDir() {
			linked[id] = entry
		}
		if err == fs.SkipDir {
			return err
		}
		return WrapPath(name, err)
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

// writeEntry writes one file. It returns fs.SkipDir after a directory on a special file system.
func writeEntry(ctx context.Context, tw *tar.Writer, root *os.Root, name string, fi fs.FileInfo) (*Entry, error) {
	h, err := statHeader(fi)
	if err != nil {
		return nil, err
	}
	e := &Entry{Header: cleaned(h, name)}
	if e.Typeflag == tar.TypeSymlink {
		if e.Linkname, err = root.Readlink(name); err != nil {
			return nil, err
		}
	}
	if !e.HasContent() && !fi.IsDir() {
		return e, tw.WriteHeader(e.As(name))
	}
	f, err := root.OpenFile(name, os.O_RDONLY|OpenNoBlock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := e.readXattrs(f); err != nil {
		return nil, err
	}
	switch err := tw.WriteHeader(e.As(name)); {
	case err == nil && fi.IsDir() && Special(f):
		return e, fs.SkipDir
	case err != nil || fi.IsDir():
		return e, err
	}
	n, err := blob.CopyTo(ctx, tw, io.LimitReader(f, e.Size), nil)
	if err == nil && n != e.Size {
		err = errors.New("became shorter while it was read")
	}
	return e, err
}
