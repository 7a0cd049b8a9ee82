package images

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// openSubject reads a source whole, with the SHA-256 of every file.
func (s *session) openSubject(ctx context.Context, src *Source) (_ *subject, err error) {
	sub := &subject{src: src, close: func() {}}
	switch {
	case src.Image != nil:
		if sub.t, err = s.image(ctx, src.Image); err != nil {
			return nil, err
		}
		sub.fetch = s.fetchLayers(sub.t)
		if sub.f, err = s.findings(ctx, sub.t); err != nil {
			return nil, err
		}
		sub.f.Source, sub.f.Digest = src.Ref.String(), src.Digest
		return sub, nil
	}
	tarball, err := isTarball(src.Path)
	if err != nil {
		return nil, err
	}
	if tarball {
		var idx *layerIndex
		if sub.f, idx, err = s.tarball(ctx, src.Path); err != nil {
			return nil, err
		}
		sub.t = newMerged()
		sub.fetch = func(ctx context.Context, want []*inode) (map[*inode]*io.SectionReader, error) {
			return s.fetchTarball(ctx, src.Path, want)
		}
		return sub, sub.t.apply(idx, 0)
	}
	return sub, s.diskSubject(ctx, sub)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fetchLayers reads the layers again that have the files wanted.
func (s *session) fetchLayers(t *merged) func(context.Context, []*inode) (map[*inode]*io.SectionReader, error) {
	return func(ctx context.Context, want []*inode) (map[*inode]*io.SectionReader, error) {
		got := map[*inode]*io.SectionReader{}
		missing := map[v1.Hash][]*inode{}
		for _, i := range want {
			if i.elf != nil && i.elf.content != nil {
				got[i] = i.elf.content
				continue
			}
			if i.kept != nil {
				got[i] = i.kept
				continue
			}
			id := t.layers[i.layer].diffID
			missing[id] = append(missing[id], i)
		}
		for _, l := range t.layers {
			if len(missing[l.diffID]) == 0 {
				continue
			}
			ls, err := openLayer(ctx, t.again[l.diffID], s.progress)
			if err != nil {
				return nil, err
			}
			err = s.keepMembers(ls, missing[l.diffID], got)
			ls.Close()
			if err != nil {
				return nil, ls.wrap(err)
			}
			delete(missing, l.diffID)
		}
		return got, nil
	}
}

// keepMembers keeps the contents of some members of a tar stream.
func (s *session) keepMembers(r io.Reader, want []*inode, got map[*inode]*io.SectionReader) error {
	byNumber := map[int]*inode{}
	for _, i := range want {
		byNumber[i.number] = i
	}
	tr := newMemberReader(r)
	for len(byNumber) > 0 {
		m, err := tr.next()
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		i := byNumber[m.number]
		if i == nil {
			continue
		}
		if got[i], err = s.spool.keepStream(tr, m.Size); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		delete(byNumber, m.number)
	}
	return nil
}

func (s *session) fetchTarball(ctx context.Context, name string, want []*inode) (map[*inode]*io.SectionReader, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, _, err := decompress(ctx, reading{ctx, f, nil})
	if err != nil {
		return nil, wrapPath(name, err)
	}
	defer body.Close()
	got := map[*inode]*io.SectionReader{}
	return got, wrapPath(name, s.keepMembers(body, want, got))
}

// diskSubject reads a folder or a single file.
func (s *session) diskSubject(ctx context.Context, sub *subject) error {
	d, err := openDiskTree(sub.src.Path)
	if err != nil {
		return err
	}
	sub.close = d.Close
	if err := d.scan(ctx, s); err != nil {
		return err
	}
	if sub.f, err = d.findings(s); err != nil {
		return err
	}
	sub.f.Source = sub.src.Ref.String()
	idx := &layerIndex{title: sub.src.Path}
	if idx.entries, err = d.entries(ctx); err != nil {
		return err
	}
	sub.t = newMerged()
	sub.fetch = func(_ context.Context, want []*inode) (map[*inode]*io.SectionReader, error) {
		got := map[*inode]*io.SectionReader{}
		for _, i := range want {
			f, err := d.root.OpenFile(d.diskName(i.name), os.O_RDONLY|openNoBlock, 0)
			if err != nil {
				return nil, err
			}
			got[i], err = s.spool.keepStream(f, i.size)
			f.Close()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.full(i.name), err)
			}
		}
		return got, nil
	}
	return sub.t.apply(idx, 0)
}

// oneFile is the name under which single files are compared, whatever they are called.
const oneFile = "file"

func (f *diskTree) diskName(name string) string {
	if f.only != "" {
		return f.only
	}
	return name
}

// entries lists what the folder holds as the members of a layer.
func (f *diskTree) entries(ctx context.Context) ([]entry, error) {
	if f.only != "" {
		fi, err := f.root.Lstat(f.only)
		if err != nil {
			return nil, err
		}
		e, err := f.entry(ctx, f.only, fi)
		e.name = oneFile
		return []entry{e}, err
	}
	var all []entry
	first := map[fileID]string{}
	mounts := mountFilter{root: f.root}
	err := fs.WalkDir(f.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
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
		if id, links := identify(fi); !fi.IsDir() && links > 1 {
			if first[id] != "" {
				all = append(all, entry{kind: kindHardLink, name: name, link: first[id], meta: diskMeta(fi)})
				return nil
			}
			first[id] = name
		}
		e, err := f.entry(ctx, name, fi)
		if err != nil {
			return err
		}
		if name == "." {
			e.name = ""
		}
		all = append(all, e)
		if fi.IsDir() && mounts.special(name) {
			return fs.SkipDir
		}
		return nil
	})
	return all, err
}

// entry describes one file of the folder.
func (f *diskTree) entry(ctx context.Context, name string, fi fs.FileInfo) (e entry, err error) {
	e = entry{name: filepath.ToSlash(name), meta: diskMeta(fi)}
	switch t := fi.Mode().Type(); {
	case t.IsDir():
		e.kind = kindDir
	case t&fs.ModeSymlink != 0:
		e.kind = kindSymlink
		e.link, err = f.root.Readlink(name)
		return e, err
	case !t.IsRegular():
		e.kind, e.flag = kindOther, deviceFlag(t)
		return e, nil
	default:
		e.kind = kindFile
	}
	r, err := f.root.OpenFile(name, os.O_RDONLY|openNoBlock, 0)
	if err != nil {
		return e, err
	}
	defer r.Close()
	if e.meta.xattrs, err = fileXattrs(r); err != nil {
		return e, fmt.Errorf("%s: %w", f.full(name), err)
	}
	if e.size = fi.Size(); e.kind == kindFile && !f.noSums {
		hash := sha256.New()
		if e.size, err = copyTo(ctx, hash, r, nil); err != nil {
			return e, err
		}
		e.sum = (*[sha256.Size]byte)(hash.Sum(nil))
	}
	return e, nil
}
