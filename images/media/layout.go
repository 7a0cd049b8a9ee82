// Reading OCI image layouts.

package media

import (
	"cmp"
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

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
)

// Names inside an OCI image layout (image-spec, image-layout.md), and the annotation on an
// entry of its index.json that is its tag (annotations.md). containerd and buildkit write
// the whole reference under a key of their own.
const (
	LayoutFile     = "oci-layout"
	LayoutIndex    = "index.json"
	layoutVersion  = "1.0.0"
	refNameKey     = "org.opencontainers.image.ref.name"
	fullRefNameKey = "io.containerd.image.name"
)

// files are where the files of an image are: a directory or a tar archive.
type files interface {
	// open gives a file's content and its length in bytes.
	open(name string) (io.ReadCloser, int64, error)
}

type directory string

func (f directory) open(name string) (io.ReadCloser, int64, error) {
	file, size, err := blob.OpenRegular(filepath.Join(string(f), filepath.FromSlash(name)))
	if err != nil {
		return nil, 0, err
	}
	return file, size, nil
}

func readFile(in files, name string, limit int64) ([]byte, error) {
	f, size, err := in.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, hinterr.Damaged("%s: %d bytes, want at most %d", name, size, limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err == nil && int64(len(data)) != size {
		err = hinterr.Damaged("%s: got %d bytes, want %d", name, len(data), size)
	}
	return data, err
}

// fileBlobs are blobs in files: each has one of several names.
type fileBlobs struct {
	in    files
	names func(v1.Hash) []string
	hint  string // of a blob that is missing
}

func (b fileBlobs) Open(d v1.Descriptor) (io.ReadCloser, int64, error) {
	for _, name := range b.names(d.Digest) {
		f, size, err := b.in.open(name)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, hinterr.ErrNotFound) {
			return f, size, err
		}
	}
	err := hinterr.Errorf(hinterr.ErrNotFound, "no blob %v", d.Digest)
	if b.hint != "" {
		err = hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no file with the blob %v", d.Digest), "%s", b.hint)
	}
	return nil, 0, err
}

func blobEntry(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// OpenLayout opens the image of an OCI layout directory.
func OpenLayout(ctx context.Context, ref Ref, o Options) (*Source, error) {
	if fi, err := os.Stat(ref.Name); errors.Is(err, fs.ErrNotExist) {
		return nil, hinterr.Errorf(hinterr.ErrNotFound, "oci layout %s: no such directory", ref.Name)
	} else if err == nil && !fi.IsDir() {
		return nil, hinterr.With(hinterr.Damaged("oci layout %s: not a directory", ref.Name), "an OCI layout in a tar file is oci-archive:%s", ref.Name)
	}
	src, err := layoutImage(ctx, directory(ref.Name), ref, o)
	if err != nil {
		return nil, fmt.Errorf("oci layout %s: %w", ref.Name, err)
	}
	return src, nil
}

func layoutImage(ctx context.Context, in files, ref Ref, o Options) (*Source, error) {
	raw, err := readFile(in, LayoutIndex, blob.MaxManifest)
	if err != nil {
		return nil, err
	}
	marker, err := readFile(in, LayoutFile, blob.MaxManifest)
	if err != nil {
		return nil, err
	}
	return fromLayout(ctx, ref, fileBlobs{in, func(h v1.Hash) []string { return []string{blobEntry(h)} }, ""}, marker, raw, o)
}

// fromLayout makes a source of a layout's blobs and its two files oci-layout and index.json.
func fromLayout(ctx context.Context, ref Ref, b blob.Blobs, marker, rawIndex []byte, o Options) (*Source, error) {
	var version struct {
		V string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(marker, &version); err != nil {
		return nil, hinterr.Damaged("%s: %v", LayoutFile, err)
	}
	if version.V != layoutVersion {
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%s: got version %q, want %q", LayoutFile, version.V, layoutVersion)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(rawIndex, &index); err != nil {
		return nil, hinterr.Damaged("%s: %v", LayoutIndex, err)
	}
	d, err := entryOf(index.Manifests, ref.Tag, b, o)
	if err != nil {
		return nil, err
	}
	ref.Tag = cmp.Or(ref.Tag, tagOf(d))
	src := &Source{Ref: ref, Digest: d.Digest.String()}
	if err := src.Choose(ctx, b, d, o); err != nil {
		return nil, err
	}
	return src, nil
}

// tagOf is the tag of an entry of index.json, "" if it has none.
func tagOf(d v1.Descriptor) string {
	return cmp.Or(d.Annotations[fullRefNameKey], d.Annotations[refNameKey])
}

// entryOf finds the entry of index.json that a tag names; without a tag the only one, or
// the only one for the platform.
func entryOf(entries []v1.Descriptor, tag string, b blob.Blobs, o Options) (v1.Descriptor, error) {
	var fit []v1.Descriptor
	var names []string
	for _, d := range entries {
		if isAttestation(d) {
			continue
		}
		names = append(names, cmp.Or(tagOf(d), d.Digest.String()))
		if tag == "" || tag == d.Annotations[refNameKey] || tag == d.Annotations[fullRefNameKey] || tag == d.Digest.String() {
			fit = append(fit, d)
		}
	}
	switch {
	case len(fit) > 0 && !slices.ContainsFunc(fit, func(d v1.Descriptor) bool { return d.Digest != fit[0].Digest }):
		return fit[0], nil // one, or one under several names
	case len(fit) == 0 && tag != "":
		return v1.Descriptor{}, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no image with the tag %q", tag), "%s", listNames(names))
	case len(fit) == 0:
		return v1.Descriptor{}, hinterr.Errorf(hinterr.ErrNotFound, "%s lists no image", LayoutIndex)
	}
	open := func(h v1.Hash) (v1.Image, error) {
		at := slices.IndexFunc(fit, func(d v1.Descriptor) bool { return d.Digest == h })
		return blob.NewStoredImage(b, fit[at])
	}
	var matching []v1.Descriptor
	for _, d := range fit {
		ok := d.MediaType.IsIndex() || d.MediaType.IsSchema1() || d.MediaType == ""
		if d.MediaType.IsImage() {
			p, err := platformOf(d, open)
			if err != nil {
				return v1.Descriptor{}, err
			}
			ok = p != nil && platformRank(*p, o.Platform) > 0
		}
		if ok {
			matching = append(matching, d)
		}
	}
	if len(matching) == 1 {
		return matching[0], nil
	}
	return v1.Descriptor{}, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%d images: %w", len(fit), ErrSeveral), "%s", listNames(names))
}

// ErrSeveral is a source with several images, of which none is named.
var ErrSeveral = errors.New("name one of them")

// listNames is the hint after a tag that was not found or not given: the tags, and of images without one the digest or ID.
func listNames(names []string) string {
	if len(names) == 0 {
		return "its images have no tags: save them again with a name"
	}
	s := "add one of these after a colon:"
	for n, t := range names {
		if n == maxListed {
			return s + " …"
		}
		s += " " + t
	}
	return s
}

// maxListed is how many names an error or a hint lists.
const maxListed = 20

// Choose sets the source's image from what d names: an image, or an index to take the
// platform's image from.
func (s *Source) Choose(ctx context.Context, b blob.Blobs, d v1.Descriptor, o Options) error {
	switch {
	case d.MediaType.IsIndex():
		idx, err := blob.NewStoredIndex(b, d)
		if err != nil {
			return err
		}
		return s.chooseFrom(idx, o)
	case d.MediaType.IsImage():
		img, err := blob.NewStoredImage(b, d)
		if err != nil {
			return err
		}
		return s.Take(img, o)
	case schema1.IsSchema1(d.MediaType):
		raw, err := blob.ReadBlob(b, d, "manifest", blob.MaxManifest)
		if err != nil {
			return err
		}
		return s.takeSchema1(ctx, raw, b, o)
	}
	return hinterr.Errorf(hinterr.ErrUnsupported, "manifest %v: media type %q is not an image", d.Digest, d.MediaType)
}
