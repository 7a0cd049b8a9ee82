// Writing a tree into a directory.

package contents

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
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

// Write writes the tree into an empty directory, with all metadata that the caller may set, and returns a warning about
// what it could not set.
func (t *Tree) Write(ctx context.Context, dir string) (warnings []string, err error) {
	w := &treeWriter{names: map[*Inode][]string{}}
	if w.root, err = os.OpenRoot(dir); err != nil {
		return nil, err
	}
	defer w.root.Close()
	err = w.write(ctx, t)
	if w.files > 0 {
		warnings = []string{fmt.Sprintf("not kept for %d files: owners, devices or attributes (needs root); the first is %s", w.files, w.first)}
	}
	return warnings, err
}

type treeWriter struct {
	root  *os.Root
	names map[*Inode][]string // of the regular files
	files int                 // with losses
	first string              // the first of them, and its losses
}

func (w *treeWriter) lost(name string, lost []string) {
	if len(lost) == 0 {
		return
	}
	if w.files++; w.first == "" {
		w.first = fmt.Sprintf("%s: %v", name, lost)
	}
}

// write writes directories, then symlinks and devices, then files, in the order of the layers. Owners, modes and times
// of directories come last, inner directories first.
func (w *treeWriter) write(ctx context.Context, t *Tree) (err error) {
	const filling = 0o700
	dirs, entries := []string{"."}, []*Entry{t.At("").Entry}
	t.Walk(func(name string, k *Node) {
		if k.IsDir() && err == nil {
			dirs, entries = append(dirs, name), append(entries, k.Entry)
			err = w.root.Mkdir(name, filling)
		}
	})
	var files []*Inode
	for _, v := range t.Files(func(*Inode) bool { return true }) {
		if v.HasContent() {
			files, w.names[v.Inode] = append(files, v.Inode), v.Names
		} else if err == nil {
			err = WrapPath(v.Names[0], w.special(v))
		}
	}
	if err == nil {
		err = t.Read(ctx, files, func(i *Inode, r io.Reader) error { return w.file(ctx, i, r) })
	}
	for i, name := range slices.Backward(dirs) {
		if err == nil {
			err = w.closeDir(name, entries[i])
		}
	}
	return err
}

// file writes one file under its first name, and links the others to it.
func (w *treeWriter) file(ctx context.Context, i *Inode, r io.Reader) error {
	names := w.names[i]
	f, err := w.root.OpenFile(names[0], os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = filecopy.CopySparse(f, blob.Reading{Ctx: ctx, Reader: r}); err == nil {
		err = w.adorn(names[0], f, i.Entry)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return w.link(names)
}

func (w *treeWriter) link(names []string) error {
	for _, other := range names[1:] {
		if err := w.root.Link(names[0], other); err != nil {
			return err
		}
	}
	return nil
}

// adorn sets the owner, mode, xattrs and time of an open file or directory.
func (w *treeWriter) adorn(name string, f *os.File, e *Entry) error {
	lost, err := e.give(f)
	if err != nil {
		return WrapPath(name, err)
	}
	w.lost(name, lost)
	return w.root.Chtimes(name, e.ModTime, e.ModTime)
}

func (w *treeWriter) closeDir(name string, e *Entry) error {
	f, err := w.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.adorn(name, f, e)
}

// special creates a symlink, device or fifo, and links to it. A device that the caller may not create is omitted.
func (w *treeWriter) special(v Target) error {
	name := filepath.Join(w.root.Name(), v.Names[0])
	chmod := func(mode uint32) error { return unix.Chmod(name, mode) }
	var err error
	if v.Typeflag == tar.TypeSymlink {
		chmod = func(uint32) error { return nil } // all have the same
		err = os.Symlink(v.Linkname, name)
	} else {
		const private = 0o600
		err = unix.Mknod(name, nodeTypes[v.Typeflag]|private, int(unix.Mkdev(uint32(v.Devmajor), uint32(v.Devminor))))
	}
	if onlyRoot(err) || errors.Is(err, unix.ENOTSUP) {
		w.lost(v.Names[0], []string{"device"})
		return nil
	}
	if err != nil {
		return err
	}
	lost, err := v.giveOwner(func(uid, gid int) error { return os.Lchown(name, uid, gid) }, chmod)
	w.lost(v.Names[0], append(lost, v.xattrs()...))
	t := unix.NsecToTimespec(v.ModTime.UnixNano())
	if err := errors.Join(err, unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)); err != nil {
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
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case e.Type()&fs.ModeSocket != 0:
			return nil
		}
		if err := source.MayBeInLayer(name); err != nil {
			return err
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
	switch {
	case e.Typeflag == tar.TypeSymlink:
		if e.Linkname, err = root.Readlink(name); err != nil {
			return nil, err
		}
		fallthrough
	case !e.HasContent() && !fi.IsDir():
		return e, tw.WriteHeader(e.As(name))
	}
	f, err := root.OpenFile(name, os.O_RDONLY|OpenNoBlock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err = e.readXattrs(f); err == nil {
		err = tw.WriteHeader(e.As(name))
	}
	switch {
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
