// Whole sources for comparison: every file with its SHA-256, and contents that can be read
// again.

package contents

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/progress"
)

// Fetcher makes the contents of files readable; what it returns lasts as long as the session.
type Fetcher func(context.Context, []*Inode) (map[*Inode]*io.SectionReader, error)

// Subject is a source that is examined whole: its file system, and what was found in it.
type Subject struct {
	Src   *media.Source
	T     *Tree
	F     *Scanned
	Fetch Fetcher
	Close func()
}

// OpenSubject reads a source whole, with the SHA-256 of every file where the session wants it.
func (s *Session) OpenSubject(ctx context.Context, src *media.Source) (_ *Subject, err error) {
	sub := &Subject{Src: src, Close: func() {}}
	switch {
	case src.Image != nil:
		if sub.T, err = s.Image(ctx, src.Image); err != nil {
			return nil, err
		}
		sub.Fetch = s.FetchLayers(sub.T)
		if sub.F, err = s.Findings(ctx, sub.T); err != nil {
			return nil, err
		}
		sub.F.Source, sub.F.Digest = src.Ref.String(), src.Digest
		return sub, nil
	}
	tarball, err := IsTarball(src.Path)
	if err != nil {
		return nil, err
	}
	if tarball {
		if sub.F, sub.T, err = s.Tarball(ctx, src.Path); err != nil {
			return nil, err
		}
		sub.Fetch = func(ctx context.Context, want []*Inode) (map[*Inode]*io.SectionReader, error) {
			return s.fetchTarball(ctx, src.Path, want)
		}
		return sub, nil
	}
	return sub, s.diskSubject(ctx, sub)
}

// SortedKeys are the keys of m in order, for output that is the same each time.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// FetchLayers reads the layers again that have the files wanted.
func (s *Session) FetchLayers(t *Tree) Fetcher {
	return func(ctx context.Context, want []*Inode) (map[*Inode]*io.SectionReader, error) {
		got := map[*Inode]*io.SectionReader{}
		missing := map[v1.Hash][]*Inode{}
		for _, i := range want {
			if i.ELF != nil && i.ELF.Content != nil {
				got[i] = i.ELF.Content
				continue
			}
			if i.kept != nil {
				got[i] = i.kept
				continue
			}
			id := t.Layers[i.Layer].DiffID
			missing[id] = append(missing[id], i)
		}
		for _, l := range t.Layers {
			if len(missing[l.DiffID]) == 0 {
				continue
			}
			ls, err := blob.OpenLayer(ctx, t.Again[l.DiffID], s.Progress)
			if err != nil {
				return nil, err
			}
			err = s.keepMembers(ls, missing[l.DiffID], got)
			ls.Close()
			if err != nil {
				return nil, ls.Wrap(err)
			}
			delete(missing, l.DiffID)
		}
		return got, nil
	}
}

// keepMembers keeps the contents of some members of a tar stream.
func (s *Session) keepMembers(r io.Reader, want []*Inode, got map[*Inode]*io.SectionReader) error {
	byNumber := map[int]*Inode{}
	for _, i := range want {
		byNumber[i.Number] = i
	}
	tr := blob.NewMemberReader(r)
	for len(byNumber) > 0 {
		m, err := tr.Next()
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		i := byNumber[m.Number]
		if i == nil {
			continue
		}
		if got[i], err = s.spool.KeepStream(tr, m.Size); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
		delete(byNumber, m.Number)
	}
	return nil
}

func (s *Session) fetchTarball(ctx context.Context, name string, want []*Inode) (map[*Inode]*io.SectionReader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, _, err := blob.Decompress(ctx, blob.Reading{Ctx: ctx, Reader: f, T: nil})
	if err != nil {
		return nil, WrapPath(name, err)
	}
	defer body.Close()
	got := map[*Inode]*io.SectionReader{}
	return got, WrapPath(name, s.keepMembers(body, want, got))
}

// diskSubject reads a folder or a single file.
func (s *Session) diskSubject(ctx context.Context, sub *Subject) error {
	d, err := OpenDiskTree(sub.Src.Path)
	if err != nil {
		return err
	}
	sub.Close = d.Close
	if err := d.Scan(ctx, s); err != nil {
		return err
	}
	if sub.F, err = d.Findings(s); err != nil {
		return err
	}
	sub.F.Source = sub.Src.Ref.String()
	idx := &layerIndex{Title: sub.Src.Path}
	if idx.Entries, err = d.Entries(ctx); err != nil {
		return err
	}
	sub.T = NewTree()
	if err := sub.T.Apply(idx, 0); err != nil {
		return err
	}
	sub.Fetch = func(_ context.Context, want []*Inode) (map[*Inode]*io.SectionReader, error) {
		got := map[*Inode]*io.SectionReader{}
		for _, i := range want {
			f, err := d.Root.OpenFile(d.diskName(i.Name), os.O_RDONLY|OpenNoBlock, 0)
			if err != nil {
				return nil, err
			}
			got[i], err = s.spool.KeepStream(f, i.Size)
			f.Close()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.Full(i.Name), err)
			}
		}
		return got, nil
	}
	return sub.place(ctx)
}

// place has the targets' files, which were closed since, be those of the tree.
func (sub *Subject) place(ctx context.Context) error {
	for i := range sub.F.Targets {
		h := &sub.F.Targets[i]
		k := sub.T.At(h.Names[0])
		if k == nil {
			k = sub.T.At(oneFile)
			h.Names = []string{oneFile}
		}
		got, err := sub.Fetch(ctx, []*Inode{k.Inode})
		if err != nil {
			return err
		}
		h.ELF.Content = got[k.Inode]
		k.Entry.ELF = h.ELF
		h.Inode = k.Inode
	}
	return nil
}

// oneFile is the name under which single files are compared, whatever they are called.
const oneFile = "file"

func (f *DiskTree) diskName(name string) string {
	if f.Only != "" {
		return f.Only
	}
	return name
}

// Entries lists what the folder holds as the members of a layer.
func (f *DiskTree) Entries(ctx context.Context) ([]Entry, error) {
	if f.Only != "" {
		fi, err := f.Root.Lstat(f.Only)
		if err != nil {
			return nil, err
		}
		e, err := f.entry(ctx, f.Only, fi)
		e.Name = oneFile
		return []Entry{e}, err
	}
	var all []Entry
	first := map[FileID]*Entry{}
	mounts := MountFilter{Root: f.Root}
	err := fs.WalkDir(f.Root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if fi.Mode()&fs.ModeSocket != 0 {
			return nil
		}
		if id, links := Identify(fi); !fi.IsDir() && links > 1 {
			if e := first[id]; e != nil {
				all = append(all, Entry{Kind: kindHardLink, Name: filepath.ToSlash(name), Link: e.Name, Meta: e.Meta})
				return nil
			}
			first[id] = &Entry{}
		}
		e, err := f.entry(ctx, name, fi)
		if err != nil {
			return err
		}
		if id, _ := Identify(fi); first[id] != nil {
			*first[id] = e
		}
		if name == "." {
			e.Name = ""
		}
		all = append(all, e)
		if fi.IsDir() && mounts.Special(name) {
			return fs.SkipDir
		}
		return nil
	})
	return all, err
}

// entry describes one file of the folder.
func (f *DiskTree) entry(ctx context.Context, name string, fi fs.FileInfo) (e Entry, err error) {
	e = Entry{Name: filepath.ToSlash(name), Meta: DiskMeta(fi)}
	switch t := fi.Mode().Type(); {
	case t.IsDir():
		e.Kind = KindDir
	case t&fs.ModeSymlink != 0:
		e.Kind = KindSymlink
		e.Link, err = f.Root.Readlink(name)
		return e, err
	case !t.IsRegular():
		e.Kind, e.Flag = KindOther, deviceFlag(t)
		return e, nil
	default:
		e.Kind = KindFile
	}
	r, err := f.Root.OpenFile(name, os.O_RDONLY|OpenNoBlock, 0)
	if err != nil {
		return e, err
	}
	defer r.Close()
	if e.Meta.Xattrs, err = FileXattrs(r); err != nil {
		return e, fmt.Errorf("%s: %w", f.Full(name), err)
	}
	if e.Size = fi.Size(); e.Kind == KindFile && !f.NoSums {
		hash := sha256.New()
		if e.Size, err = blob.CopyTo(ctx, hash, r, nil); err != nil {
			return e, err
		}
		e.Sum = (*[sha256.Size]byte)(hash.Sum(nil))
	}
	return e, nil
}

// WriteEntry writes one file of a folder.
func (f *DiskTree) WriteEntry(ctx context.Context, tw *tar.Writer, e *Entry, task progress.Task) error {
	hdr := e.Header(e.Name)
	if hdr.Typeflag != tar.TypeReg {
		return tw.WriteHeader(hdr)
	}
	r, err := f.Root.OpenFile(filepath.FromSlash(e.Name), os.O_RDONLY|OpenNoBlock, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := tw.WriteHeader(hdr); err != nil {
		return err
	}
	n, err := blob.CopyTo(ctx, tw, io.LimitReader(r, e.Size), task)
	if err == nil && n != e.Size {
		err = errors.New("became shorter while it was read")
	}
	return err
}

// OpenMeta is the metadata of an open file or directory.
func OpenMeta(f *os.File) (m Meta, err error) {
	fi, err := f.Stat()
	if err != nil {
		return m, err
	}
	m = DiskMeta(fi)
	m.Xattrs, err = FileXattrs(f)
	return m, err
}

// deviceFlag is the tar type flag of what is no file, folder or symlink.
func deviceFlag(t fs.FileMode) byte {
	switch {
	case t&fs.ModeNamedPipe != 0:
		return tar.TypeFifo
	case t&fs.ModeCharDevice != 0:
		return tar.TypeChar
	}
	return tar.TypeBlock
}
