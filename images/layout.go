package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Names inside an OCI image layout (image-spec, image-layout.md), and the annotation on an
// entry of its index.json that is its tag (annotations.md). containerd and buildkit write
// the whole reference under a key of their own.
const (
	layoutFile     = "oci-layout"
	layoutIndex    = "index.json"
	layoutVersion  = "1.0.0"
	refNameKey     = "org.opencontainers.image.ref.name"
	fullRefNameKey = "io.containerd.image.name"
)

// layoutBlobs are the blobs of an OCI layout folder.
type layoutBlobs struct{ dir string }

func (l layoutBlobs) path(h v1.Hash) string {
	return filepath.Join(l.dir, "blobs", h.Algorithm, h.Hex)
}

func (l layoutBlobs) open(h v1.Hash) (io.ReadCloser, int64, error) {
	f, size, err := openRegular(l.path(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, errorf(ErrNotFound, "oci layout %s: no blob %v", l.dir, h)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("oci layout %s: blob %v: %w", l.dir, h, err)
	}
	return f, size, nil
}

// openRegular opens a regular file, or a symlink to one, and nothing else: opening a FIFO
// would wait for ever.
func openRegular(path string) (*os.File, int64, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, damaged("%s: not a regular file but %s", path, fi.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

// readSmall reads a regular file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, damaged("%s: %d bytes, want at most %d", path, size, limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// openLayout opens the image of an OCI layout folder.
func openLayout(ctx context.Context, ref Ref, o MediaOptions) (*Source, error) {
	if fi, err := os.Stat(ref.Name); errors.Is(err, fs.ErrNotExist) {
		return nil, errorf(ErrNotFound, "oci layout %s: no such folder", ref.Name)
	} else if err == nil && !fi.IsDir() {
		return nil, withHint(damaged("oci layout %s: not a folder", ref.Name), "an OCI layout in a tar file is oci-archive:%s", ref.Name)
	}
	marker, err := readSmall(filepath.Join(ref.Name, layoutFile), maxManifest)
	if err != nil {
		return nil, fmt.Errorf("oci layout %s: %w", ref.Name, err)
	}
	raw, err := readSmall(filepath.Join(ref.Name, layoutIndex), maxManifest)
	if err != nil {
		return nil, fmt.Errorf("oci layout %s: %w", ref.Name, err)
	}
	src, err := fromLayout(ctx, ref, layoutBlobs{ref.Name}, marker, raw, o)
	if err != nil {
		return nil, fmt.Errorf("oci layout %s: %w", ref.Name, err)
	}
	return src, nil
}

// fromLayout makes a source of a layout's blobs and its two files oci-layout and index.json.
func fromLayout(ctx context.Context, ref Ref, b blobs, marker, rawIndex []byte, o MediaOptions) (*Source, error) {
	var version struct {
		V string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(marker, &version); err != nil {
		return nil, damaged("%s: %v", layoutFile, err)
	}
	if version.V != layoutVersion {
		return nil, errorf(ErrUnsupported, "%s: got version %q, want %q", layoutFile, version.V, layoutVersion)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(rawIndex, &index); err != nil {
		return nil, damaged("%s: %v", layoutIndex, err)
	}
	d, err := entryOf(index.Manifests, ref.Tag, b, o)
	if err != nil {
		return nil, err
	}
	if ref.Tag == "" {
		ref.Tag = tagOf(d)
	}
	src := &Source{Ref: ref, Digest: d.Digest.String(), Close: func() error { return nil }}
	if err := src.choose(ctx, b, d, o); err != nil {
		return nil, err
	}
	return src, nil
}

// tagOf is the tag of an entry of index.json, "" where it has none.
func tagOf(d v1.Descriptor) string {
	if full := d.Annotations[fullRefNameKey]; full != "" {
		return full
	}
	return d.Annotations[refNameKey]
}

// entryOf finds the entry of index.json that a tag names; without a tag the only one, or
// the only one for the platform.
func entryOf(entries []v1.Descriptor, tag string, b blobs, o MediaOptions) (v1.Descriptor, error) {
	var fit []v1.Descriptor
	var tags []string
	for _, d := range entries {
		if isAttestation(d) {
			continue
		}
		if t := tagOf(d); t != "" {
			tags = append(tags, t)
		}
		if tag == "" || tag == d.Annotations[refNameKey] || tag == d.Annotations[fullRefNameKey] || tag == d.Digest.String() {
			fit = append(fit, d)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) == 0 && tag != "":
		return v1.Descriptor{}, withHint(errorf(ErrNotFound, "no image with the tag %q", tag), "%s", listTags(tags))
	case len(fit) == 0:
		return v1.Descriptor{}, errorf(ErrNotFound, "%s lists no image", layoutIndex)
	}
	matching, err := matchingEntries(fit, b, o.Platform)
	if err != nil {
		return v1.Descriptor{}, err
	}
	if len(matching) == 1 {
		return matching[0], nil
	}
	return v1.Descriptor{}, withHint(errorf(ErrNotFound, "%d images, and nothing says which", len(fit)), "%s", listTags(tags))
}

// listTags is the hint after a tag that was not found or not given.
func listTags(tags []string) string {
	if len(tags) == 0 {
		return "its images have no tags: give a digest behind a colon"
	}
	s := "tags there are, to be given behind a colon:"
	for n, t := range tags {
		if n == maxListed {
			return s + " …"
		}
		s += " " + t
	}
	return s
}

// maxListed is how many names an error or a hint lists.
const maxListed = 20

// choose sets the source's image from what d names: an image, or an index to take the
// platform's image from.
func (s *Source) choose(ctx context.Context, b blobs, d v1.Descriptor, o MediaOptions) error {
	switch {
	case d.MediaType.IsIndex():
		idx, err := newStoredIndex(b, d)
		if err != nil {
			return err
		}
		return s.chooseFrom(idx, o)
	case d.MediaType.IsImage():
		img, err := newStoredImage(b, d)
		if err != nil {
			return err
		}
		return s.take(img, o)
	case isSchema1(d.MediaType):
		raw, err := readBlob(b, d, "manifest", maxManifest)
		if err != nil {
			return err
		}
		return s.takeSchema1(ctx, raw, b, o)
	}
	return errorf(ErrUnsupported, "manifest %v: media type %q is not an image", d.Digest, d.MediaType)
}
