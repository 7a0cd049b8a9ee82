// Writing OCI layouts, as a directory or in a tar archive.

package media

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/progress"
)

// layoutMarker is the content of the file oci-layout (image-spec, image-layout.md).
const layoutMarker = `{"imageLayoutVersion":"` + layoutVersion + `"}`

// prepare collects what a layout or OCI archive of r needs, and the entry for its
// index.json. An index goes as it is; a single image gets OCI media types. done is called when the blobs
// are written.
func prepare(ctx context.Context, r Result, tag string, o Options) (c blob.Collection, d v1.Descriptor, done func(), err error) {
	done = func() {}
	if r.Index == nil {
		if r.Image, done, err = portable(ctx, r.Image, true, o.Progress); err != nil {
			return nil, d, nil, err
		}
	}
	c = blob.Collection{}
	if d, err = collect(c, r, o.Progress); err != nil {
		done()
		return nil, d, nil, err
	}
	// Platform and annotations, if any, are those of the place that the image came from.
	d = v1.Descriptor{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest}
	if tag != "" {
		d.Annotations = map[string]string{refNameKey: tag}
	}
	return c, d, done, nil
}

func newLayoutIndex(d v1.Descriptor) ([]byte, error) {
	return json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
}

// collect collects a result and returns the descriptor of its index or image.
func collect(c blob.Collection, r Result, p progress.Reporter) (v1.Descriptor, error) {
	if r.Index != nil {
		return c.AddIndex(r.Index, p, blob.MaxNesting)
	}
	return c.AddImage(r.Image)
}

// copyBlob writes a blob, verified.
func copyBlob(ctx context.Context, w io.Writer, b blob.BlobToWrite, o Options) error {
	rc, err := b.Open()
	if err != nil {
		return err
	}
	defer rc.Close()
	checked, err := blob.Verified(rc, b.Digest, b.Size)
	if err != nil {
		return err
	}
	var task progress.Task
	if b.Layer != "" {
		task = o.Progress.Start("write", b.Layer, b.Size)
		defer task.Done()
	}
	_, err = blob.CopyTo(ctx, w, checked, task)
	return err
}

// PutLayout writes a result into an OCI layout directory: a new one, or one that is there, in
// which an image of the same tag is replaced. A new layout gets its name when it is complete;
// in an existing one the index is written last, and if that fails, the blobs written before it
// are removed.
func PutLayout(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	fail := func(err error) (Stored, error) { return Stored{}, fmt.Errorf("oci layout %s: %w", dest.Name, err) }
	unlock, err := atomicfile.Lock(ctx, dest.Name, o.Progress)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	old, err := existingLayout(dest.Name)
	if err != nil {
		return fail(err)
	}
	c, d, done, err := prepare(ctx, r, dest.Tag, o)
	if err != nil {
		return fail(err)
	}
	defer done()
	st := Stored{Reference: dest.String(), Digest: d.Digest.String()}
	err = r.stated(dest, st, func() error {
		if old != nil {
			return extendLayout(ctx, dest.Name, old, c, d, o)
		}
		return atomicfile.WriteDir(dest.Name, 0o777, func(temp string) error { return newLayout(ctx, temp, c, d, o) })
	})
	if err != nil {
		return fail(err)
	}
	return st, nil
}

// existingLayout returns the index.json of a layout, nil for nothing or an empty
// directory at dir.
func existingLayout(dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, LayoutFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the directory is not empty and not an OCI layout")
	}
	return blob.ReadSmall(filepath.Join(dir, LayoutIndex), blob.MaxManifest)
}

func newLayout(ctx context.Context, dir string, c blob.Collection, d v1.Descriptor, o Options) error {
	if _, err := writeBlobs(ctx, dir, c, o); err != nil {
		return err
	}
	index, err := newLayoutIndex(d)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(dir, LayoutIndex), index); err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(dir, LayoutFile), []byte(layoutMarker)); err != nil {
		return err
	}
	return ctx.Err()
}

// extendLayout adds blobs to a layout and then the entry d to its index, in the place of the
// entry with the same tag, or with the same content and no tag. Other entries keep their bytes.
func extendLayout(ctx context.Context, dir string, index []byte, c blob.Collection, d v1.Descriptor, o Options) (err error) {
	text, err := parseIndexText(index)
	if err != nil {
		return err
	}
	tagged := d.Annotations[refNameKey] == "" && slices.ContainsFunc(text.Entries, func(e v1.Descriptor) bool {
		return e.Digest == d.Digest && e.Annotations[refNameKey] != ""
	})
	for n, e := range text.Entries {
		if tag := e.Annotations[refNameKey]; tag == d.Annotations[refNameKey] && (tag != "" || e.Digest == d.Digest) {
			text.Drop(n)
		}
	}
	if !tagged { // else the layout has it already: a second entry without a tag would only hide the first
		if err := text.Add(d); err != nil {
			return err
		}
	}
	written, err := writeBlobs(ctx, dir, c, o)
	defer func() {
		if err != nil {
			for _, p := range written {
				os.Remove(p)
			}
		}
	}()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, LayoutIndex), text.Bytes())
}

// writeBlobs writes the blobs that a layout directory does not have yet, each under its final
// name only when it is whole and verified, and returns the paths of those it wrote.
func writeBlobs(ctx context.Context, dir string, c blob.Collection, o Options) (written []string, err error) {
	for _, b := range c.Sorted() {
		path := filepath.Join(dir, filepath.FromSlash(blobEntry(b.Digest)))
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Size() == b.Size {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return written, err
		}
		if err := writeBlob(ctx, path, b, o); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	return written, nil
}

func writeBlob(ctx context.Context, path string, b blob.BlobToWrite, o Options) error {
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := copyBlob(ctx, f, b, o); err != nil {
		return err
	}
	return f.Commit()
}

// writeOCITar writes an OCI layout in one pass: entries sorted by name, no times, no owners, so that the same result
// gives the same bytes.
func writeOCITar(ctx context.Context, w io.Writer, tag string, r Result, o Options) (v1.Hash, error) {
	c, d, done, err := prepare(ctx, r, tag, o)
	if err != nil {
		return d.Digest, err
	}
	defer done()
	tw := tar.NewWriter(w)
	dirs := map[string]bool{}
	for _, b := range c.Sorted() {
		for _, dir := range []string{"blobs/", "blobs/" + b.Digest.Algorithm + "/"} {
			if dirs[dir] {
				continue
			}
			dirs[dir] = true
			if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
				return d.Digest, err
			}
		}
		if err := tarHeader(tw, blobEntry(b.Digest), b.Size); err != nil {
			return d.Digest, err
		}
		if err := copyBlob(ctx, tw, b, o); err != nil {
			return d.Digest, err
		}
	}
	index, err := newLayoutIndex(d)
	if err == nil {
		err = TarBytes(tw, LayoutIndex, index)
	}
	if err == nil {
		err = TarBytes(tw, LayoutFile, []byte(layoutMarker))
	}
	if err == nil {
		err = tw.Close()
	}
	return d.Digest, err
}
