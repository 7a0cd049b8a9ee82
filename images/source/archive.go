// Archives of images: random access to the entries of a tar archive.

package source

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// maxEntries is how many entries an archive of images may have. docker save writes five a layer and an image has at
// most 127 layers; several images fit.
const maxEntries = 100_000

// maxLinks is how many links are followed from one entry of an archive to the next.
const maxLinks = 8

// tarBlock is the block size of tar, in bytes (POSIX pax, "ustar Interchange Format").
const tarBlock = 512

// tarEntry is where the content of one entry lies in an archive, in bytes.
type tarEntry struct {
	offset, size int64
	link         string // the name that it is a link to; then it has no content
}

// archive is a tar archive with random access: one pass over its headers, none over its content. One that is
// compressed is unpacked once to a temporary file.
type archive struct {
	name    string // as the user gave it
	f       *os.File
	entries map[string]tarEntry
}

// errStopped says that stop stopped the reading of an archive.
var errStopped = errors.New("stopped")

// openTar reads the headers of an archive. stop, which may be nil, is called with the name of each entry; if it
// returns true, openTar returns errStopped without reading the rest.
func openTar(ctx context.Context, name string, o Options, stop func(entry string) bool) (*archive, error) {
	f, size, err := blob.OpenRegular(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hinterr.Errorf(hinterr.ErrNotFound, "no such file")
	}
	if err != nil {
		return nil, err
	}
	t := &archive{name: name, f: f, entries: map[string]tarEntry{}}
	head := make([]byte, blob.MagicLen)
	n, err := f.ReadAt(head, 0)
	switch {
	case err != nil && err != io.EOF:
	case blob.DetectCompression(head[:n]) == blob.PlainStream:
		err = t.list(ctx, f, func() (int64, error) { return f.Seek(0, io.SeekCurrent) }, stop)
	default:
		defer f.Close()
		err = t.keep(ctx, f, size, o, stop)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// list reads the headers of r; at gives its offset in the file that has the content.
func (t *archive) list(ctx context.Context, r io.Reader, at func() (int64, error), stop func(string) bool) error {
	tr := tar.NewReader(r)
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := tr.Next()
		switch {
		case err == io.EOF && n > 0:
			return nil
		case err != nil && n == 0 && ctx.Err() == nil:
			return hinterr.Damaged("not a tar archive: %w", err)
		case err != nil:
			return hinterr.Damaged("tar entry %d: %w", n, err)
		}
		name := cleanEntry(h.Name)
		if stop != nil && stop(name) {
			return errStopped
		}
		if n >= maxEntries {
			return hinterr.Damaged("more than %d entries", maxEntries)
		}
		off, err := at()
		if err != nil {
			return err
		}
		e := tarEntry{offset: off, size: h.Size}
		switch h.Typeflag {
		case tar.TypeReg:
		case tar.TypeSymlink:
			e = tarEntry{link: cleanEntry(path.Join(path.Dir(name), h.Linkname))}
		case tar.TypeLink:
			e = tarEntry{link: cleanEntry(h.Linkname)}
		default:
			continue
		}
		if _, twice := t.entries[name]; twice {
			return hinterr.Damaged("two entries are named %s", name)
		}
		t.entries[name] = e
	}
}

// cleanEntry gives the name of an entry without "./", "/" and "..".
func cleanEntry(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// keep reads a stream of size bytes into a temporary file, unpacked if it is compressed, and lists it on the way, so
// that stop is called before all of it is unpacked.
func (t *archive) keep(ctx context.Context, r io.Reader, size int64, o Options, stop func(string) bool) error {
	task := o.Progress.Start("read", t.name, size)
	defer task.Done()
	plain, _, err := blob.Decompress(ctx, blob.Reading{Ctx: ctx, Reader: r, T: task})
	if err != nil {
		return err
	}
	defer plain.Close()
	if t.f, err = blob.TempFile(); err != nil {
		return err
	}
	count := &blob.CountingReader{R: io.TeeReader(plain, t.f)}
	if err := t.list(ctx, count, func() (int64, error) { return count.N, nil }, stop); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, count) // damage behind the end marker counts
	return err
}

// Close closes the archive, with which a temporary file ends.
func (t *archive) Close() error { return t.f.Close() }

// has reports whether the archive has an entry of that name.
func (t *archive) has(name string) bool { _, ok := t.entries[cleanEntry(name)]; return ok }

// section opens an entry, which may be a link to another.
func (t *archive) section(name string) (*io.SectionReader, error) {
	at := cleanEntry(name)
	for range maxLinks {
		e, ok := t.entries[at]
		switch {
		case !ok:
			return nil, hinterr.Errorf(hinterr.ErrNotFound, "no entry %s", name)
		case e.link == "":
			return io.NewSectionReader(t.f, e.offset, e.size), nil
		}
		at = e.link
	}
	return nil, hinterr.Damaged("entry %s: more than %d links", name, maxLinks)
}

// file is the archive's files.
func (t *archive) file(name string) (io.ReadCloser, error) {
	s, err := t.section(name)
	return io.NopCloser(s), err
}

// openArchive opens the image of a docker or OCI archive.
func openArchive(ctx context.Context, ref Ref, o Options) (*Source, error) {
	t, err := openTar(ctx, ref.Name, o, nil)
	if err != nil {
		return nil, err
	}
	return fromArchive(ctx, t, ref, o)
}

// fromArchive opens the image of an archive that is open, and closes the archive if it cannot.
func fromArchive(ctx context.Context, t *archive, ref Ref, o Options) (src *Source, err error) {
	if ref.Transport == DockerArchive {
		src, err = dockerImage(ctx, t, ref, o)
	} else {
		src, err = layoutImage(t.file, ref, o)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	src.AtEnd(t.Close)
	return src, nil
}
