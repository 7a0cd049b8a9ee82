// Archives of images: random access to the entries of a tar archive.

package source

import (
	"archive/tar"
	"cmp"
	"context"
	"io"
	"os"
	"path"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// maxLinks is how many links are followed from one entry of an archive to the next.
const maxLinks = 8

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

// errRootFS is an archive that has a root filesystem.
var errRootFS = hinterr.Errorf(hinterr.ErrUnsupported, "a root filesystem, not an archive of images")

// openTar reads the headers of an archive.
func openTar(ctx context.Context, name string, o Options) (*archive, error) {
	f, size, err := blob.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	t := &archive{name: name, f: f, entries: map[string]tarEntry{}}
	kind, err := blob.CompressionOf(f)
	switch {
	case err != nil:
	case kind == blob.PlainStream:
		err = t.list(ctx, f)
	default:
		defer f.Close()
		err = t.keep(ctx, f, size, o)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// list reads the headers of r, up to the first that only a root filesystem has.
func (t *archive) list(ctx context.Context, r io.Reader) error {
	for m, err := range blob.Members(r) {
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
		if inRoot(m.Path) {
			return errRootFS
		}
		e := tarEntry{offset: m.Offset, size: m.Size}
		switch m.Typeflag {
		case tar.TypeSymlink:
			e.link = cleanEntry(path.Join(path.Dir(m.Path), m.Linkname))
		case tar.TypeLink:
			e.link = cleanEntry(m.Linkname)
		}
		t.entries[m.Path] = e
	}
	return nil
}

// cleanEntry gives the name of an entry without "./", "/" and "..".
func cleanEntry(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// keep reads a stream of size bytes into a temporary file, unpacked if it is compressed, and lists it on the way, so
// that a root filesystem is found out before all of it is unpacked.
func (t *archive) keep(ctx context.Context, r io.Reader, size int64, o Options) error {
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
	kept := io.TeeReader(plain, t.f)
	if err := t.list(ctx, kept); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, kept) // damage behind the end marker counts
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
	t, err := openTar(ctx, ref.Name, o)
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
