// Writing results: layouts, archives of a layout, and docker archives.

package source

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
)

// Put writes a result to dest, completely or not at all. The digest of what was written may differ from that of
// r.Image: an OCI layout gets OCI media types, and uncompressed layers of an engine or docker archive are compressed
// for a registry and for OCI.
func Put(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	o = o.WithDefaults()
	dest, err := ResolveDest(dest)
	if err != nil {
		return Stored{}, err
	}
	put := transports[dest.Transport].put
	if put == nil {
		return Stored{}, hinterr.Errorf(hinterr.ErrUnsupported, "%v: only a rebuild writes a directory", dest)
	}
	noteOmitted(r.Index, o.Progress)
	if r.Index != nil && !dest.HasManifests() {
		o.Progress.Note("a docker archive or an engine holds one platform: the others are omitted")
		r.Index = nil
	}
	switch {
	case r.Index == nil:
		var done func()
		r.Image, done, err = portable(ctx, r.Image, dest, o)
		defer done()
	case dest.isLayout():
		r.Index, err = OCIIndex(r.Index)
	}
	var out Stored
	if err == nil {
		out, err = put(ctx, dest, r, o)
	}
	if err != nil {
		return Stored{}, dest.about(err)
	}
	return out, nil
}

// Ready returns what prevents an image from being written to a DEST with a transport: an engine that does not answer, no
// directory for the file. It leaves nothing behind.
func Ready(ctx context.Context, dest Ref, o Options) error {
	switch dest.Transport {
	case Daemon:
		_, err := firstEngine(ctx, dest.Host, o.WithDefaults())
		return err
	case DockerArchive, OCIArchive:
		f, err := atomicfile.Create(dest.Name)
		if err != nil {
			return dest.about(err)
		}
		f.Discard()
	case Dir:
		return CheckRootDest(dest.Name)
	}
	return nil
}

// putArchive writes a result as a docker archive, for docker load, or as an OCI layout in a tar file. A docker archive
// holds one platform; its tag is the name that the image gets there.
func putArchive(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	f, err := atomicfile.Create(dest.Name)
	if err != nil {
		return Stored{}, err
	}
	defer f.Discard()
	var digest v1.Hash
	if dest.Transport == DockerArchive {
		digest, err = writeDockerTar(ctx, f, archiveTag(dest, r.Source), r, o)
	} else {
		digest, err = writeOCITar(ctx, f, dest.Tag, r, o)
	}
	if err != nil {
		return Stored{}, err
	}
	return Stored{Reference: dest.String(), Digest: digest.String()}, f.Commit()
}

// archiveTag is the name of the image in a docker archive: without a tag of dest, that which its source has, so that
// an engine that loads the archive can run it by a name.
func archiveTag(dest, from Ref) string {
	if dest.Tag != "" || from == (Ref{}) {
		return dest.Tag
	}
	tag, _ := ResultName(from, "", "-vfix")
	return tag
}

// writeDockerTar writes an image as docker save does and returns its ID. Layers go as they are, gzip'ed or plain, both
// of which every docker load reads. The bytes depend only on the image and tag.
func writeDockerTar(ctx context.Context, w io.Writer, tag string, r Result, o Options) (id v1.Hash, err error) {
	if id, err = r.Image.ConfigName(); err != nil {
		return id, err
	}
	var ref name.Reference = new(name.Repository).Digest(id.String()) // gives the archive no name
	if tag != "" {
		if tag, err = fullTag(tag); err == nil {
			ref, err = name.NewTag(tag)
		}
		if err != nil {
			return id, err
		}
	}
	size, err := tarball.CalculateSize(map[name.Reference]v1.Image{ref: r.Image})
	if err != nil {
		return id, err
	}
	task := o.Progress.Start("write", blob.ShortHash(id), size)
	defer task.Done()
	return id, blob.Piped(
		func(to io.Writer) error { return tarball.Write(ref, r.Image, to) },
		func(r io.Reader) error {
			_, err := blob.CopyTo(ctx, w, r, task)
			return err
		})
}

// writeOCITar writes an OCI layout in one pass, without times and owners, so that the same result gives the same bytes.
func writeOCITar(ctx context.Context, f io.Writer, tag string, r Result, o Options) (v1.Hash, error) {
	tw := tar.NewWriter(f)
	for _, dir := range []string{"blobs/", "blobs/sha256/"} {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return v1.Hash{}, err
		}
	}
	to := func(name string, size int64, content io.Reader) error {
		err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644})
		if err == nil {
			_, err = io.Copy(tw, content)
		}
		return err
	}
	none := func(string, int64) bool { return false }
	w := &layoutWriter{ctx, o, to, none, map[v1.Hash]bool{}}
	digest, err := w.layout(r, tag)
	return digest, cmp.Or(err, tw.Close())
}

// putLayout writes a result into an OCI layout directory: a new one, or an existing one, in which an image of the same
// tag is replaced. A new layout gets its name when it is complete; in an existing one the index is written last.
func putLayout(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	exists, err := layoutExists(dest.Name)
	if err != nil {
		return Stored{}, err
	}
	var digest v1.Hash
	if !exists {
		err = atomicfile.WriteDir(dest.Name, 0o777, func(temp string) (err error) {
			digest, err = inDirectory(ctx, temp, o).layout(r, dest.Tag)
			return err
		})
		exists = errors.Is(err, fs.ErrExist) // another run was faster
	}
	if exists {
		digest, err = extendLayout(ctx, dest, r, o)
	}
	return Stored{Reference: dest.String(), Digest: digest.String()}, err
}

// layoutExists reports whether dir is a layout; it may be missing or empty.
func layoutExists(dir string) (bool, error) {
	if empty, err := isEmpty(dir); empty || err != nil {
		return false, err
	}
	if _, err := os.Stat(filepath.Join(dir, layoutFile)); errors.Is(err, fs.ErrNotExist) {
		return false, hinterr.With(errors.New("the directory is not empty and not an OCI layout"), "name a new directory, an empty one, or a layout")
	}
	return true, nil
}

// extendLayout adds a result to a layout: its blobs and then its entry in the index, instead of those with the same tag.
// Several runs that extend a layout take turns.
func extendLayout(ctx context.Context, dest Ref, r Result, o Options) (v1.Hash, error) {
	d, err := inDirectory(ctx, dest.Name, o).blobs(r, dest.Tag)
	if err != nil {
		return d.Digest, err
	}
	unlock, err := atomicfile.Lock(dest.Name)
	if err != nil {
		return d.Digest, err
	}
	defer unlock()
	var members blob.Object
	raw, err := filesOf(dest.Name).json(layoutIndex, blob.MaxManifest, &members)
	if err != nil {
		return d.Digest, err
	}
	isThere := false
	text, err := editIndex(raw, func(e v1.Descriptor, _ blob.Object) bool {
		isThere = isThere || e.Digest == d.Digest
		return dest.Tag != "" && e.Annotations[refNameKey] == dest.Tag
	}, d)
	err = cmp.Or(err, ctx.Err())
	if err != nil || dest.Tag == "" && isThere { // an entry without a tag would only make it ambiguous
		return d.Digest, err
	}
	return d.Digest, atomicfile.Write(filepath.Join(dest.Name, layoutIndex), text)
}

// inDirectory writes a layout in a directory, each file under its final name only when it is whole.
func inDirectory(ctx context.Context, dir string, o Options) *layoutWriter {
	path := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	has := func(name string, size int64) bool {
		fi, err := os.Stat(path(name))
		return err == nil && fi.Mode().IsRegular() && fi.Size() == size
	}
	to := func(name string, size int64, content io.Reader) error {
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o777); err != nil {
			return err
		}
		f, err := atomicfile.Create(path(name))
		if err != nil {
			return err
		}
		defer f.Discard()
		if _, err := io.Copy(f, content); err != nil {
			return err
		}
		return f.Commit()
	}
	return &layoutWriter{ctx, o, to, has, map[v1.Hash]bool{}}
}
