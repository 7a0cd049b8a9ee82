package images

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"vfix.dev/vfix/internal/filemarks"
)

// Tarballs of root filesystems: read like one layer, but names that begin with .wh. are
// names like others.

// isTarball reports whether a path is a regular file that holds a tar archive: compressed,
// or with the magic of one. Other compressed files are told apart when they are read.
func isTarball(name string) (bool, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return false, err
	}
	if !fi.Mode().IsRegular() {
		return false, nil
	}
	return maybeTar(name)
}

// tarball examines a tarball. The layer that comes back holds its members.
func (s *session) tarball(ctx context.Context, name string) (*found, *layerIndex, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	task := startTask(s.progress, "read", name, fi.Size())
	defer task.Done()
	body, _, err := decompress(ctx, reading{ctx, f, task})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	defer body.Close()
	x := &examiner{s: s}
	defer x.Close()
	r := bufio.NewReaderSize(body, copyBuffer)
	idx := &layerIndex{title: name}
	if idx.entries, err = x.readEntries(ctx, r); err == nil {
		// What follows the archive's end says whether the compressed stream is sound.
		_, err = copyTo(ctx, io.Discard, r, nil)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	t := newMerged()
	if err := t.apply(idx, 0); err != nil {
		return nil, nil, err
	}
	out, err := s.findings(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	out.Source = name
	return out, idx, nil
}

// compressTo returns a writer that compresses as kind says.
func compressTo(w io.Writer, kind compression) (io.WriteCloser, error) {
	switch kind {
	case gzipStream:
		return gzip.NewWriterLevel(w, layerGzipLevel)
	case zstdStream:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return nopWriteCloser{w}, nil
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }

// rewriteTarball writes the tarball behind r to w with the hits patched, compressed as
// it was. All other members keep their headers and contents.
func (s *session) rewriteTarball(ctx context.Context, w io.Writer, r io.Reader, hits []hit) error {
	body, kind, err := decompress(ctx, reading{ctx, r, nil})
	if err != nil {
		return err
	}
	defer body.Close()
	out, err := compressTo(w, kind)
	if err != nil {
		return err
	}
	byNumber := map[int]hit{}
	for _, h := range hits {
		byNumber[h.number] = h
	}
	in := bufio.NewReaderSize(body, copyBuffer)
	tw := tar.NewWriter(out)
	if err := s.rewriteMembers(ctx, tw, newMemberReader(in), byNumber); err != nil {
		return err
	}
	if _, err := copyTo(ctx, io.Discard, in, nil); err != nil {
		return err
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return out.Close()
}

func (s *session) rewriteMembers(ctx context.Context, tw *tar.Writer, tr *memberReader, hits map[int]hit) error {
	for {
		m, err := tr.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.rewriteMember(ctx, tw, tr, m, hits); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
}

func (s *session) rewriteMember(ctx context.Context, tw *tar.Writer, tr io.Reader, m *tarMember, hits map[int]hit) error {
	hdr := *m.Header
	if m.sparse {
		// archive/tar writes no holes: the file is written out.
		if m.Size > maxELF {
			return errorf(ErrUnsupported, "sparse file of %d bytes, at most %d are written out", m.Size, int64(maxELF))
		}
		hdr.Typeflag = tar.TypeReg
	}
	h, patched := hits[m.number]
	if patched {
		hdr.Size = h.plan.Size
		hdr.PAXRecords = maps.Clone(hdr.PAXRecords)
		maps.DeleteFunc(hdr.PAXRecords, func(k, _ string) bool {
			name, ok := strings.CutPrefix(k, xattrPrefix)
			return ok && filemarks.Is(name)
		})
		//lint:ignore SA1019 tar.Reader fills it in and tar.Writer writes it, beside PAXRecords
		hdr.Xattrs = nil
		h.warnDropped(marks(h.meta.xattrs))
		tr = h.plan.Apply(h.elf.content)
	}
	if err := tw.WriteHeader(&hdr); err != nil {
		return err
	}
	if !m.isRegular() {
		return nil
	}
	n, err := copyTo(ctx, tw, tr, nil)
	if errors.Is(err, io.ErrUnexpectedEOF) || err == nil && n != hdr.Size {
		return damaged("ends early: got %d bytes, want %d", n, hdr.Size)
	}
	return err
}
