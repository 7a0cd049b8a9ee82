// Tarballs of root filesystems: read like one layer, but without whiteouts.

package contents

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// Tarball examines a tarball, with a title for messages.
func (s *Session) Tarball(ctx context.Context, name, title string) (*Findings, error) {
	f, size, err := blob.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found, err := s.Stream(ctx, f, size, title)
	return found, WrapPath(title, err)
}

// Stream examines the root filesystem in a tar stream, compressed or not; the size is -1 if it is unknown.
func (s *Session) Stream(ctx context.Context, r io.Reader, size int64, title string) (*Findings, error) {
	task := progress.Start(s.Progress, "read", title, size)
	defer task.Done()
	body, _, err := blob.Decompress(ctx, blob.Reading{Ctx: ctx, Reader: r, T: task})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	x := &examiner{S: s}
	defer x.Close()
	entries, err := x.ReadEntries(ctx, body)
	if err != nil {
		return nil, err
	}
	// The bytes after the archive's end show whether a compressed stream is intact.
	if _, err = blob.CopyTo(ctx, io.Discard, body, nil); err != nil {
		return nil, err
	}
	t := NewTree()
	if err := t.stack(&layerIndex{Title: title, Entries: entries}, nil); err != nil {
		return nil, err
	}
	return t.Findings(), nil
}

// missing returns the files that programs of a tarball load and that are not in it. A program whose loader is in it has
// its root filesystem around it.
func (t *Tree) missing() []string {
	here := map[string]bool{}
	for name := range t.nodes {
		here[path.Base(name)] = true
	}
	all := map[string]bool{}
	for _, v := range t.Files(func(i *Inode) bool { return i.ELF != nil && len(i.ELF.loads) > 0 }) {
		if here[path.Base(v.ELF.loads[0])] {
			continue
		}
		for _, name := range v.ELF.loads {
			if !here[path.Base(name)] {
				all[name] = true
			}
		}
	}
	return SortedKeys(all)
}

// RewriteTarball writes the tarball r to w with the hits patched, compressed as before. All other members keep
// their headers and contents, and so does what follows the archive: padding, or another archive.
func RewriteTarball(ctx context.Context, w io.Writer, r io.Reader, hits []File) error {
	body, kind, err := blob.Decompress(ctx, blob.Reading{Ctx: ctx, Reader: r, T: nil})
	if err != nil {
		return err
	}
	defer body.Close()
	out, finish := w, func() error { return nil }
	switch kind {
	case blob.GzipStream:
		zw, _ := gzip.NewWriterLevel(w, layerGzipLevel) // errs for a wrong level
		out, finish = zw, zw.Close
	case blob.ZstdStream:
		zw, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		out, finish = zw, zw.Close
	}
	byNumber := map[uint32]File{}
	for _, h := range hits {
		byNumber[h.Number] = h
	}
	in := bufio.NewReaderSize(body, blob.CopyBuffer)
	tw := tar.NewWriter(out)
	for m, err := range blob.Members(in) {
		if err != nil {
			return err
		}
		if err := rewriteMember(ctx, tw, m, byNumber); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	if _, err := blob.CopyTo(ctx, out, in, nil); err != nil {
		return err
	}
	return finish()
}

func rewriteMember(ctx context.Context, tw *tar.Writer, m *blob.TarMember, hits map[uint32]File) error {
	content := m.Content
	hdr := *m.Header
	if m.Sparse {
		// archive/tar writes no holes, so the file is written out.
		if m.Size > MaxELF {
			return hinterr.Errorf(hinterr.ErrUnsupported, "sparse file of %d bytes, at most %d are written out", m.Size, int64(MaxELF))
		}
		hdr.Typeflag = tar.TypeReg
	}
	h, patched := hits[m.Number]
	if patched {
		hdr.Size = h.Plan.Size
		hdr.PAXRecords = maps.Clone(hdr.PAXRecords)
		for _, mark := range h.Marks() {
			delete(hdr.PAXRecords, blob.XattrPrefix+mark)
		}
		//lint:ignore SA1019 tar.Reader fills it in and tar.Writer writes it, beside PAXRecords
		hdr.Xattrs = nil
		content = h.Plan.Apply(h.ELF.Content)
	}
	if err := tw.WriteHeader(&hdr); err != nil {
		return err
	}
	if !m.IsRegular() {
		return nil
	}
	n, err := blob.CopyTo(ctx, tw, content, nil)
	if errors.Is(err, io.ErrUnexpectedEOF) || err == nil && n != hdr.Size {
		return hinterr.Damaged("ends early: got %d bytes, want %d", n, hdr.Size)
	}
	return err
}
