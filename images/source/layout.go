// Reading OCI image layouts, in a directory or an archive.

package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
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
	refNameKey     = "org.opencontainers.image.ref.name"
	fullRefNameKey = "io.containerd.image.name"
)

// files opens a file of an image, in a directory or an archive. Its error for a name that does not exist is ErrNotFound.
type files func(name string) (io.ReadCloser, error)

// filesOf are the files of a directory.
func filesOf(dir string) files {
	return func(name string) (io.ReadCloser, error) {
		f, _, err := blob.OpenRegular(filepath.Join(dir, filepath.FromSlash(name)))
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
	var top v1.IndexManifest
	if _, err := in.json(layoutIndex, blob.MaxManifest, &top); err != nil {
		return nil, err
	}
	from := fileStore{in, blobName}
	d, err := pick(top.Manifests, ref.Tag, o)
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

// ErrSeveral is a source with several images, of which none is named.
var ErrSeveral = errors.New("name one of them")

// pick finds the entry of an image that a tag names: by a name as docker understands it, by the digest, or by the
// beginning of that, at least what docker shows of it. Without a tag it is the only image, or the only one for the
// platform.
func pick(entries []v1.Descriptor, tag string, o Options) (d v1.Descriptor, err error) {
	const shown = 12
	var fit []v1.Descriptor
	var names []string
	for _, d := range entries {
		if isAttestation(d) {
			continue
		}
		names = append(names, cmp.Or(tagOf(d), d.Digest.String()))
		isName := sameImageName(d.Annotations[fullRefNameKey], tag) || sameImageName(d.Annotations[refNameKey], tag)
		isID := len(tag) >= shown && strings.HasPrefix(d.Digest.Hex, strings.TrimPrefix(tag, "sha256:"))
		if tag == "" || isName || isID {
			fit = append(fit, d)
		}
	}
	slices.SortStableFunc(fit, func(a, b v1.Descriptor) int { return cmp.Compare(a.Digest.Hex, b.Digest.Hex) })
	fit = slices.CompactFunc(fit, func(a, b v1.Descriptor) bool { return a.Digest == b.Digest }) // one image may have several names
	images := len(fit)
	if images > 1 {
		fit = slices.DeleteFunc(fit, func(d v1.Descriptor) bool { return d.Platform != nil && !d.Platform.Satisfies(o.Platform) })
	}
	switch {
	case len(names) == 0:
		return d, hinterr.Errorf(hinterr.ErrNotFound, "it lists no image")
	case len(fit) == 1:
		return fit[0], nil
	case tag != "":
		err = hinterr.Errorf(hinterr.ErrNotFound, "no image with the tag %q", tag)
	default:
		err = hinterr.Errorf(hinterr.ErrNotFound, "%d images: %w", images, ErrSeveral)
	}
	return d, hinterr.With(err, "add one of these after a colon: %s", strings.Join(names, " "))
}
