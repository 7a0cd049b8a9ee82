// Archives of images: random access to the entries of a tar archive, and writing one.

package media

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// maxEntries is how many entries an archive of images may have. docker save writes five a
// layer and an image has at most 127 layers; several images fit.
const maxEntries = 100_000

// maxLinks is how many links are followed from one entry of an archive to the next.
const maxLinks = 8

// tarEntry is where the content of one entry lies in an archive, in bytes.
type tarEntry struct {
	offset, size int64
	link         string // the name it is a link to; then it has no content
	sparse       bool   // its content is not one piece of the archive; nothing that writes images makes such
}

// tarFile is a tar archive with random access: one pass over its headers, no pass over its
// content. An archive that is compressed is unpacked once to a temporary file.
type tarFile struct {
	name    string // as the user gave it, for messages
	f       *os.File
	temp    bool // f is a temporary file
	entries map[string]tarEntry
}

// ErrNotTar: the file is not a tar archive, whatever else it may be.
var ErrNotTar = hinterr.Damaged("not a tar archive")

// OpenTar reads the headers of an archive. stop, which may be nil, is called after each entry; if it returns true,
// OpenTar returns ErrStopped without reading the rest.
func OpenTar(ctx context.Context, name string, o Options, stop func(entry string) bool) (*tarFile, error) {
	f, size, err := blob.OpenRegular(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hinterr.Errorf(hinterr.ErrNotFound, "%s: no such file", name)
	}
	if err != nil {
		return nil, err
	}
	t := &tarFile{name: name, f: f, entries: map[string]tarEntry{}}
	head := make([]byte, TarBlock)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		t.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if blob.DetectCompression(head[:n]) != blob.PlainStream {
		defer f.Close()
		err = t.keep(ctx, f, size, o, stop)
	} else {
		err = t.list(ctx, f, func() (int64, error) { return f.Seek(0, io.SeekCurrent) }, stop)
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// TarBlock is the block size of tar, in bytes (POSIX pax, "ustar Interchange Format").
const TarBlock = 512

// ErrStopped: stop ended OpenTar early.
var ErrStopped = errors.New("stopped")

// list reads the headers of r; at is its offset in what t reads content from.
func (t *tarFile) list(ctx context.Context, r io.Reader, at func() (int64, error), stop func(string) bool) error {
	tr := tar.NewReader(r)
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := tr.Next()
		if err == io.EOF {
			if n == 0 {
				return ErrNotTar
			}
			return nil
		}
		if err != nil {
			switch {
			case n == 0 && errors.Is(err, tar.ErrHeader):
				return ErrNotTar
			case n == 0 && ctx.Err() == nil:
				return fmt.Errorf("%w: %w", ErrNotTar, err)
			}
			return hinterr.Damaged("tar entry %d: %v", n, err)
		}
		name := cleanEntry(h.Name)
		if stop != nil && stop(name) {
			return ErrStopped
		}
		if n >= maxEntries {
			return hinterr.Damaged("more than %d entries", maxEntries)
		}
		off, err := at()
		if err != nil {
			return err
		}
		e := tarEntry{offset: off, size: h.Size, sparse: blob.IsSparse(h)}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeGNUSparse:
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

// keep reads a stream of size bytes into a temporary file, unpacked if it is compressed, and lists it on the
// way, so that a stop comes before the whole of it is unpacked.
func (t *tarFile) keep(ctx context.Context, r io.Reader, size int64, o Options, stop func(string) bool) error {
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
	t.temp = true
	count := &blob.CountingReader{R: io.TeeReader(plain, t.f)}
	if err := t.list(ctx, count, func() (int64, error) { return count.N, nil }, stop); err != nil {
		return err
	}
	// The bytes behind the end marker are also read, or damage there would not be noticed.
	_, err = blob.CopyTo(ctx, io.Discard, count, nil)
	return err
}

// Close closes the archive and removes its file if that is temporary.
func (t *tarFile) Close() error {
	if t.temp {
		blob.RemoveTemp(t.f)
		return nil
	}
	return t.f.Close()
}

// Has reports whether the archive has an entry of that name.
func (t *tarFile) Has(name string) bool { _, ok := t.entries[cleanEntry(name)]; return ok }

// find follows links to an entry with content.
func (t *tarFile) find(name string) (tarEntry, error) {
	at := cleanEntry(name)
	for range maxLinks {
		e, ok := t.entries[at]
		switch {
		case !ok:
			return e, hinterr.Errorf(hinterr.ErrNotFound, "no entry %s", name)
		case e.sparse:
			return e, hinterr.Damaged("entry %s is sparse", name)
		case e.link == "":
			return e, nil
		}
		at = e.link
	}
	return tarEntry{}, hinterr.Damaged("entry %s: more than %d links", name, maxLinks)
}

// section gives the content of an entry.
func (t *tarFile) section(e tarEntry) io.ReadCloser {
	return io.NopCloser(io.NewSectionReader(t.f, e.offset, e.size))
}

// open gives the content of an entry by its name, and its length in bytes.
func (t *tarFile) open(name string) (io.ReadCloser, int64, error) {
	e, err := t.find(name)
	if err != nil {
		return nil, 0, err
	}
	return t.section(e), e.size, nil
}

// FromArchive makes a source of an archive, of the form that ref says, which it closes if it cannot.
func FromArchive(ctx context.Context, t *tarFile, ref Ref, o Options) (*Source, error) {
	var src *Source
	var err error
	if ref.Transport == DockerArchive {
		src, err = dockerImage(ctx, t, ref, o)
	} else if src, err = layoutImage(ctx, t, ref, o); errors.Is(err, hinterr.ErrNotFound) && t.Has(ArchiveManifest) && !t.Has(LayoutIndex) {
		err = hinterr.With(err, "it is a docker archive: docker-archive:%s", ref.Name)
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("%s %s: %w", archiveWords[ref.Transport], ref.Name, err)
	}
	src.AtEnd(t.Close)
	return src, nil
}

// OpenArchive opens the image of a docker or OCI archive.
func OpenArchive(ctx context.Context, ref Ref, o Options) (*Source, error) {
	t, err := OpenTar(ctx, ref.Name, o, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archiveWords[ref.Transport], err)
	}
	return FromArchive(ctx, t, ref, o)
}

// archiveWords are what archives are called in messages.
var archiveWords = map[Transport]string{DockerArchive: "docker archive", OCIArchive: "oci archive"}

// PutArchive writes a result as a docker archive, for docker load, or as an OCI layout in a tar file. A docker archive
// holds one platform; its tag, if it has one, is the name that the image gets there.
func PutArchive(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	fail := func(err error) (Stored, error) {
		return Stored{}, fmt.Errorf("%s %s: %w", archiveWords[dest.Transport], dest.Name, err)
	}
	f, release, err := atomicfile.CreateLocked(ctx, dest.Name, o.Progress)
	if err != nil {
		return fail(err)
	}
	defer release()
	var digest v1.Hash
	if dest.Transport == DockerArchive {
		if r.Index != nil {
			o.Progress.Note("a docker archive holds one platform: the others are left out")
		}
		digest, err = writeDockerTar(ctx, f, dest.Tag, r.Image, o)
	} else {
		digest, err = writeOCITar(ctx, f, dest.Tag, r, o)
	}
	if err != nil {
		return fail(err)
	}
	st := Stored{Reference: dest.String(), Digest: digest.String()}
	if err := r.stated(dest, st, f.Commit); err != nil {
		return fail(err)
	}
	return st, nil
}

// tarHeader begins a file of size bytes, with no owner and no time.
func tarHeader(tw *tar.Writer, name string, size int64) error {
	return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644})
}

// TarBytes writes a file with the content data, with no owner and no time.
func TarBytes(tw *tar.Writer, name string, data []byte) error {
	if err := tarHeader(tw, name, int64(len(data))); err != nil {
		return err
	}
	_, err := tw.Write(data)
	return err
}
