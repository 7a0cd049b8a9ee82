// Reading OCI image layouts, in a directory or an archive.

package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
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

// files opens a file of an image, in a directory or an archive. Its error for a name that does not exist is ErrNotFound.
type files func(name string) (io.ReadCloser, error)

// filesOf are the files of a directory.
func filesOf(dir string) files {
	return func(name string) (io.ReadCloser, error) {
		f, _, err := blob.OpenRegular(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			err = hinterr.Errorf(hinterr.ErrNotFound, "no file %s", name)
		}
		return f, err
	}
}

// json decodes a file of at most limit bytes, and returns its text.
func (in files) json(name string, limit int64, into any) ([]byte, error) {
	f, err := in(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, hinterr.Damaged("%s: more than %d bytes", name, limit)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, hinterr.Damaged("%s: %v", name, err)
	}
	return text, nil
}

// fileStore has blobs in files.
type fileStore struct {
	in   files
	name func(v1.Hash) string
}

// incomplete is the hint for a part of an image that is missing.
const incomplete = "a part of the image is missing: copy or download it again"

func (s fileStore) open(d v1.Descriptor) (io.ReadCloser, error) {
	f, err := s.in(s.name(d.Digest))
	if errors.Is(err, hinterr.ErrNotFound) {
		err = hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no blob %v", d.Digest), incomplete)
	}
	return f, err
}

// blobName is the name of a blob in a layout.
func blobName(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

func openLayout(_ context.Context, ref Ref, o Options) (*Source, error) {
	return layoutImage(filesOf(ref.Name), ref, o)
}

// layoutImage opens the image of a layout that ref's tag names, or the only one for the platform.
func layoutImage(in files, ref Ref, o Options) (*Source, error) {
	var version struct {
		V string `json:"imageLayoutVersion"`
	}
	if _, err := in.json(layoutFile, blob.MaxManifest, &version); err != nil {
		return nil, err
	}
	if version.V != layoutVersion {
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "%s: got version %q, want %q", layoutFile, version.V, layoutVersion)
	}
	var top v1.IndexManifest
	if _, err := in.json(layoutIndex, blob.MaxManifest, &top); err != nil {
		return nil, err
	}
	from := fileStore{in, blobName}
	d, err := entryOf(top.Manifests, ref.Tag, o)
	if err != nil {
		return nil, err
	}
	ref.Tag = cmp.Or(ref.Tag, tagOf(d))
	src := &Source{Ref: ref, Digest: d.Digest.String()}
	return src, src.choose(from, d, o)
}

// tagOf is the tag of an entry of index.json, "" if it has none.
func tagOf(d v1.Descriptor) string {
	return cmp.Or(d.Annotations[fullRefNameKey], d.Annotations[refNameKey])
}

// entryOf finds the entry of index.json that a tag names; without a tag the only one, or the only one for the
// platform.
func entryOf(entries []v1.Descriptor, tag string, o Options) (d v1.Descriptor, err error) {
	var all []named
	for n, d := range entries {
		if !isAttestation(d) {
			all = append(all, named{n, d.Digest.String(), []string{d.Annotations[fullRefNameKey], d.Annotations[refNameKey]}})
		}
	}
	fit := matching(all, tag)
	slices.SortStableFunc(fit, func(a, b named) int { return cmp.Compare(a.id, b.id) })
	fit = slices.CompactFunc(fit, func(a, b named) bool { return a.id == b.id }) // one image may have several names
	if len(fit) > 1 {
		fit = slices.DeleteFunc(fit, func(n named) bool {
			d := entries[n.at]
			if !d.MediaType.IsImage() {
				return false
			}
			return d.Platform == nil || !d.Platform.Satisfies(o.Platform)
		})
	}
	if len(fit) != 1 {
		return d, notOne(all, tag)
	}
	return entries[fit[0].at], nil
}

// ErrSeveral is a source with several images, of which none is named.
var ErrSeveral = errors.New("name one of them")

// named is one of several images in a layout or archive, with what a user can call it.
type named struct {
	at    int    // its place in the list
	id    string // the digest of its manifest or its config, or an old ID
	names []string
}

// matching are the images that a tag names: by a name as docker understands it, by the digest, or by the beginning of
// that, at least what docker shows of it; its first name is then that one. Without a tag it is all.
func matching(all []named, tag string) (fit []named) {
	const shown = 12
	for _, n := range all {
		_, hex, _ := strings.Cut(n.id, ":")
		isID := len(tag) >= shown && strings.HasPrefix(hex, strings.TrimPrefix(tag, "sha256:"))
		isName := func(have string) bool { return have != "" && sameImageName(have, tag) }
		k := slices.IndexFunc(n.names, isName)
		if tag == "" || isID || k >= 0 {
			n.names = n.names[max(k, 0):]
			fit = append(fit, n)
		}
	}
	return fit
}

// notOne is the error about a tag, or none, that does not name one of the images that a file lists.
func notOne(all []named, tag string) error {
	var names []string
	for _, n := range all {
		has := slices.DeleteFunc(slices.Clone(n.names), func(name string) bool { return name == "" })
		if len(has) == 0 {
			has = []string{n.id}
		}
		names = append(names, has...)
	}
	err := hinterr.Errorf(hinterr.ErrNotFound, "%d images: %w", len(all), ErrSeveral)
	switch {
	case len(all) == 0:
		return hinterr.Errorf(hinterr.ErrNotFound, "it lists no image")
	case tag != "":
		err = hinterr.Errorf(hinterr.ErrNotFound, "no image with the tag %q", tag)
	}
	return hinterr.With(err, "add one of these after a colon: %s", strings.Join(names, " "))
}
