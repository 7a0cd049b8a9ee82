// Writing OCI layouts, as a directory or in a tar archive.

package source

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/atomicfile"
)

// prepare collects what a layout of r needs, and the entry for its index.json. An index goes as it is; a single image
// gets OCI media types. done is called when the blobs are written.
func prepare(ctx context.Context, r Result, tag string, o Options) (s blobSet, d v1.Descriptor, done func(), err error) {
	s, done = blobSet{}, func() {}
	if r.Index != nil {
		d, err = s.addIndex(r.Index, o.Progress)
	} else {
		var img v1.Image
		if img, done, err = portable(ctx, r.Image, OCILayout, o); err == nil {
			d, err = s.addImage(img)
		}
	}
	// Platform and annotations, if any, are those of the place that the image came from.
	d = v1.Descriptor{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest}
	if tag != "" {
		d.Annotations = map[string]string{refNameKey: tag}
	}
	return s, d, done, err
}

// newLayoutIndex is the index.json of a layout with one entry; layoutMarker is its file oci-layout.
func newLayoutIndex(d v1.Descriptor) ([]byte, error) {
	return json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
}

const layoutMarker = `{"imageLayoutVersion":"` + layoutVersion + `"}`

// putLayout writes a result into an OCI layout directory: a new one, or an existing one, in which an image of the same
// tag is replaced. A new layout gets its name when it is complete; in an existing one the index is written last.
func putLayout(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	fail := func(err error) (Stored, error) { return Stored{}, fmt.Errorf("oci layout %s: %w", dest.Name, err) }
	exists, err := layoutExists(dest.Name)
	if err != nil {
		return fail(err)
	}
	s, d, done, err := prepare(ctx, r, dest.Tag, o)
	defer done()
	if err != nil {
		return fail(err)
	}
	if !exists {
		err = atomicfile.WriteDir(dest.Name, 0o777, func(temp string) error { return newLayout(ctx, temp, s, d, o) })
		if errors.Is(err, fs.ErrExist) { // another run was faster
			exists, err = layoutExists(dest.Name)
		}
	}
	if err == nil && exists {
		err = extendLayout(ctx, dest.Name, s, d, o)
	}
	if err != nil {
		return fail(err)
	}
	return Stored{Reference: dest.String(), Digest: d.Digest.String()}, nil
}

// layoutExists reports whether dir is a layout; it may be missing or empty.
func layoutExists(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(filepath.Join(dir, layoutFile)); errors.Is(err, fs.ErrNotExist) {
		return false, errors.New("the directory is not empty and not an OCI layout")
	}
	return true, nil
}

func newLayout(ctx context.Context, dir string, s blobSet, d v1.Descriptor, o Options) error {
	if err := writeBlobs(ctx, dir, s, o); err != nil {
		return err
	}
	index, err := newLayoutIndex(d)
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, layoutIndex), index)
	}
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, layoutFile), []byte(layoutMarker))
	}
	return cmp.Or(err, ctx.Err())
}

// extendLayout adds blobs to a layout and then the entry d to its index, instead of the entries with the same tag, or
// with the same content and no tag. Several runs that extend a layout take turns.
func extendLayout(ctx context.Context, dir string, s blobSet, d v1.Descriptor, o Options) error {
	if err := writeBlobs(ctx, dir, s, o); err != nil {
		return err
	}
	unlock, err := atomicfile.Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	path := filepath.Join(dir, layoutIndex)
	raw, err := blob.ReadSmall(path, blob.MaxManifest)
	if err != nil {
		return err
	}
	index, err := parseIndex(raw)
	if err != nil {
		return err
	}
	tag := d.Annotations[refNameKey]
	isTagged := false
	index.keep(func(e v1.Descriptor) bool {
		have := e.Annotations[refNameKey]
		isTagged = isTagged || e.Digest == d.Digest && have != ""
		return have != tag || tag == "" && e.Digest != d.Digest
	})
	if tag != "" || !isTagged { // a second entry without a tag would only make the first ambiguous
		if err := index.add(d); err != nil {
			return err
		}
	}
	text, err := index.text()
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	return atomicfile.Write(path, text)
}

// writeBlobs writes the blobs that a layout directory does not have yet, each under its final name only when it is
// whole and verified.
func writeBlobs(ctx context.Context, dir string, s blobSet, o Options) error {
	for _, b := range s.sorted() {
		path := filepath.Join(dir, filepath.FromSlash(blobName(b.digest)))
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Size() == b.size {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		f, err := atomicfile.Create(path)
		if err != nil {
			return err
		}
		if err = b.copyTo(ctx, f, o); err == nil {
			err = f.Commit()
		}
		f.Discard()
		if err != nil {
			return err
		}
	}
	return nil
}

// writeOCITar writes an OCI layout in one pass: entries sorted by name, no times, no owners, so that the same result
// gives the same bytes.
func writeOCITar(ctx context.Context, w io.Writer, tag string, r Result, o Options) (v1.Hash, error) {
	s, d, done, err := prepare(ctx, r, tag, o)
	defer done()
	if err != nil {
		return d.Digest, err
	}
	tw := tar.NewWriter(w)
	dirs := map[string]bool{}
	for _, b := range s.sorted() {
		for _, dir := range []string{"blobs/", "blobs/" + b.digest.Algorithm + "/"} {
			if dirs[dir] {
				continue
			}
			dirs[dir] = true
			if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
				return d.Digest, err
			}
		}
		if err := tarHeader(tw, blobName(b.digest), b.size); err != nil {
			return d.Digest, err
		}
		if err := b.copyTo(ctx, tw, o); err != nil {
			return d.Digest, err
		}
	}
	index, err := newLayoutIndex(d)
	if err == nil {
		err = tarBytes(tw, layoutIndex, index)
	}
	if err == nil {
		err = tarBytes(tw, layoutFile, []byte(layoutMarker))
	}
	if err == nil {
		err = tw.Close()
	}
	return d.Digest, err
}
