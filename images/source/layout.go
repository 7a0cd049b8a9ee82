// Reading OCI image layouts, in a directory or an archive.

package source

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
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// Names inside an OCI image layout (image-spec, image-layout.md), and the annotation on an entry of its index.json
// that is its tag (annotations.md). containerd and buildkit write the whole reference under a key of their own.
const (
	layoutFile     = "oci-layout"
	layoutIndex    = "index.json"
	layoutVersion  = "1.0.0"
	refNameKey     = "org.opencontainers.image.ref.name"
	fullRefNameKey = "io.containerd.image.name"
)

// files are where the files of an image are: a directory or a tar archive.
type files interface {
	// file opens a file and gives its length in bytes.
	file(name string) (io.ReadCloser, int64, error)
}

type directory string

func (d directory) file(name string) (io.ReadCloser, int64, error) {
	f, size, err := blob.OpenRegular(filepath.Join(string(d), filepath.FromSlash(name)))
	if err != nil {
		return nil, 0, err
	}
	return f, size, nil
}

func readFile(in files, name string, limit int64) ([]byte, error) {
	f, size, err := in.file(name)
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

// fileStore has blobs in files: each has one of several names.
type fileStore struct {
	in    files
	names func(v1.Hash) []string
}

func (s fileStore) open(d v1.Descriptor) (io.ReadCloser, int64, error) {
	for _, name := range s.names(d.Digest) {
		f, size, err := s.in.file(name)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, hinterr.ErrNotFound) {
			return f, size, err
		}
	}
	return nil, 0, hinterr.Errorf(hinterr.ErrNotFound, "no blob %v", d.Digest)
}

// blobName is the name of a blob in a layout.
func blobName(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

func openLayout(ctx context.Context, ref Ref, o Options) (*Source, error) {
	fi, err := os.Stat(ref.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hinterr.Errorf(hinterr.ErrNotFound, "oci layout %s: no such directory", ref.Name)
	}
	if err == nil && !fi.IsDir() {
		return nil, hinterr.With(hinterr.Damaged("oci layout %s: not a directory", ref.Name), "an OCI layout in a tar file is oci-archive:%s", ref.Name)
	}
	src, err := layoutImage(ctx, directory(ref.Name), ref, o)
	if err != nil {
		return nil, fmt.Errorf("oci layout %s: %w", ref.Name, err)
	}
	return src, nil
}

// layoutImage opens the image of a layout that ref's tag names, or the only one for the platform.
func layoutImage(ctx context.Context, in files, ref Ref, o Options) (*Source, error) {
	marker, err := readFile(in, layoutFile, blob.MaxManifest)
	if err != nil {
		return nil, err
	}
	var version struct {
		V string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(marker, &version); err != nil {
		return nil, hinterr.Damaged("%s: %v", layoutFile, err)
	}
	if version.V != layoutVersion {
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%s: got version %q, want %q", layoutFile, version.V, layoutVersion)
	}
	raw, err := readFile(in, layoutIndex, blob.MaxManifest)
	if err != nil {
		return nil, err
	}
	var top v1.IndexManifest
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, hinterr.Damaged("%s: %v", layoutIndex, err)
	}
	from := fileStore{in, func(h v1.Hash) []string { return []string{blobName(h)} }}
	d, err := entryOf(top.Manifests, ref.Tag, from, o)
	if err != nil {
		return nil, err
	}
	ref.Tag = cmp.Or(ref.Tag, tagOf(d))
	src := &Source{Ref: ref, Digest: d.Digest.String()}
	return src, src.choose(ctx, from, d, o)
}

// tagOf is the tag of an entry of index.json, "" if it has none.
func tagOf(d v1.Descriptor) string {
	return cmp.Or(d.Annotations[fullRefNameKey], d.Annotations[refNameKey])
}

// entryOf finds the entry of index.json that a tag names; without a tag the only one, or the only one for the
// platform. A tag names an entry by either annotation, by its digest, or as docker understands image names.
func entryOf(entries []v1.Descriptor, tag string, from store, o Options) (v1.Descriptor, error) {
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
	if len(fit) == 0 && tag != "" {
		for _, d := range entries {
			if full := tagOf(d); full != "" && sameImageName(full, tag) {
				fit = append(fit, d)
			}
		}
	}
	same := func(d v1.Descriptor) bool { return d.Digest == fit[0].Digest }
	switch {
	case len(fit) > 0 && !slices.ContainsFunc(fit, func(d v1.Descriptor) bool { return !same(d) }):
		return fit[0], nil // one, or one under several names
	case len(fit) == 0 && tag != "":
		return v1.Descriptor{}, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no image with the tag %q", tag), "%s", listNames(names))
	case len(fit) == 0:
		return v1.Descriptor{}, hinterr.Errorf(hinterr.ErrNotFound, "%s lists no image", layoutIndex)
	}
	var matching []v1.Descriptor
	for _, d := range fit {
		ok := !d.MediaType.IsImage()
		if !ok {
			p, err := platformOf(d, func(v1.Hash) (v1.Image, error) { return storedImage(from, d) })
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

// listNames is the hint after a tag that was not found or not given: the tags, and of images without one the digest
// or ID.
func listNames(names []string) string {
	if len(names) == 0 {
		return "its images have no tags: save them again with a name"
	}
	if len(names) > maxListed {
		names = append(names[:maxListed:maxListed], "…")
	}
	return "add one of these after a colon: " + strings.Join(names, " ")
}
