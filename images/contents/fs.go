// The files of an image, to be read by name as a process in a container of it does.

package contents

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"

	"vfix.dev/vfix/internal/rootpath"
)

// FS returns a merged file system as an fs.FS: names have no leading slash, and symlinks are followed inside it. Its
// files can be read at any offset, as long as the session lasts.
func FS(ctx context.Context, t *Tree) fs.FS {
	return &imageFS{ctx: ctx, t: t, got: map[*Inode]*io.SectionReader{}}
}

const (
	// siblingLimit is the largest file, in bytes, that is fetched with another of its directory: a package
	// database has hundreds of small files, and each fetch reads a layer from its start.
	siblingLimit = 1 << 20
	// siblings is the maximum number of files in such a fetch.
	siblings = 10_000
)

// imageFS implements fs.FS and fs.ReadDirFS.
type imageFS struct {
	ctx context.Context
	t   *Tree

	mu  sync.Mutex
	got map[*Inode]*io.SectionReader
}

// lookup finds the node of a name, and its directory.
func (f *imageFS) lookup(op, name string) (k, dir *Node, err error) {
	fail := func(err error) (*Node, *Node, error) {
		return nil, nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	w := &Way{T: f.t, File: true}
	if err := rootpath.Follow(w, name); err != nil {
		return fail(err)
	}
	return w.At[len(w.At)-1], w.At[max(len(w.At)-2, 0)], nil
}

// Open implements fs.FS.
func (f *imageFS) Open(name string) (fs.File, error) {
	k, dir, err := f.lookup("open", name)
	if err != nil {
		return nil, err
	}
	info := k.Header(path.Base(name)).FileInfo()
	if k.Kids != nil {
		return &imageFile{info: info}, nil
	}
	if k.Kind != KindFile {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	r, err := f.content(k.Inode, dir)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &imageFile{info: info, SectionReader: io.NewSectionReader(r, 0, r.Size())}, nil
}

// content reads a file, and with it the small files of its directory.
func (f *imageFS) content(i *Inode, dir *Node) (*io.SectionReader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.got[i]; r != nil {
		return r, nil
	}
	if i.Size == 0 {
		return io.NewSectionReader(bytes.NewReader(nil), 0, 0), nil
	}
	want := map[*Inode]bool{i: true}
	for _, k := range dir.Kids {
		small := k.Kids == nil && k.Kind == KindFile && k.Size > 0 && k.Size <= siblingLimit && i.Size <= siblingLimit
		if small && len(want) < siblings && f.got[k.Inode] == nil {
			want[k.Inode] = true
		}
	}
	got, err := f.t.Fetch(f.ctx, slices.Collect(maps.Keys(want)))
	if err != nil {
		return nil, err
	}
	maps.Copy(f.got, got)
	if f.got[i] == nil {
		return nil, io.ErrUnexpectedEOF
	}
	return f.got[i], nil
}

// ReadDir implements fs.ReadDirFS.
func (f *imageFS) ReadDir(name string) ([]fs.DirEntry, error) {
	k, _, err := f.lookup("readdir", name)
	if err != nil {
		return nil, err
	}
	if k.Kids == nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	var all []fs.DirEntry
	for _, name := range SortedKeys(k.Kids) {
		all = append(all, fs.FileInfoToDirEntry(k.Kids[name].Header(name).FileInfo()))
	}
	return all, nil
}

// imageFile is an open file or directory.
type imageFile struct {
	*io.SectionReader // nil for a directory
	info              fs.FileInfo
}

func (f *imageFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *imageFile) Close() error               { return nil }

func (f *imageFile) Read(b []byte) (int, error) {
	if f.SectionReader == nil {
		return 0, errors.New("is a directory")
	}
	return f.SectionReader.Read(b)
}
