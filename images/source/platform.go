// Choosing the platform's image from an index, and checking that it is complete.

package source

import (
	"context"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
)

// Annotations with which buildkit marks the manifest of an attestation and names the image that it is about
// (buildkit, docs/attestations/attestation-storage.md).
const (
	AttestationKey     = "vnd.docker.reference.type"
	AttestationSubject = "vnd.docker.reference.digest"
)

func isAttestation(d v1.Descriptor) bool { return d.Annotations[AttestationKey] != "" }

// choose sets the source's image from what d names: an image, or an index to take the platform's image from.
func (s *Source) choose(from store, d v1.Descriptor, o Options) error {
	switch {
	case d.MediaType.IsIndex():
		idx, err := storedIndex(from, d)
		if err != nil {
			return err
		}
		if d, err = platformEntry(idx, o.Platform); err != nil {
			return err
		}
		s.Index, s.Entry = idx, d
	case !d.MediaType.IsImage():
		return hinterr.Errorf(hinterr.ErrUnsupported, "manifest %v: media type %q is not an image", d.Digest, d.MediaType)
	}
	img, err := storedImage(from, d, nil)
	if err != nil {
		return err
	}
	return s.take(img, o)
}

// platformEntry chooses the image for a platform; if no level of instructions is requested, that with the lowest: the
// variants of an architecture are such levels, in the order of their names. An index in an index, which no builder
// writes, is not looked into. Without an image for the platform the error lists what there is.
func platformEntry(idx *index, want v1.Platform) (best v1.Descriptor, err error) {
	var names []string
	for _, d := range idx.parsed.Manifests {
		if isAttestation(d) || !d.MediaType.IsImage() || d.Platform == nil {
			continue
		}
		names = append(names, d.Platform.String())
		if d.Platform.Satisfies(want) && (best.Platform == nil || d.Platform.Variant < best.Platform.Variant) {
			best = d
		}
	}
	if best.Platform == nil {
		slices.Sort(names)
		err = hinterr.Errorf(hinterr.ErrPlatform, "no image for %v in the index, which has: %v", &want, names)
	}
	return best, err
}

// isConfig reports whether a media type, which may be missing, is that of an image's config, and not an artifact's.
func isConfig(t types.MediaType) bool { return t == "" || t.IsConfig() }

// take makes img the source's image after checking what can be checked without reading a layer: that manifest and
// config agree on the layers, and that the platform is the requested one.
func (s *Source) take(img *image, o Options) error {
	m, digest := &img.manifest, img.desc.Digest
	cf, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("config %v: %w", m.Config.Digest, err)
	}
	ids := cf.RootFS.DiffIDs
	if !isConfig(m.Config.MediaType) && len(ids) != len(m.Layers) {
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "manifest %v is an artifact with a config of type %s, not an image", digest, m.Config.MediaType),
			"name the image that the artifact is about")
	}
	if got, want := len(ids), len(m.Layers); got != want {
		return hinterr.Damaged("config %v: got %d diff IDs, want %d, one for each layer of manifest %v", m.Config.Digest, got, want, digest)
	}
	noHash := func(h v1.Hash) bool { return h.Hex == "" }
	noBlob := func(d v1.Descriptor) bool { return d.Size < 0 || noHash(d.Digest) }
	if slices.ContainsFunc(m.Layers, noBlob) || slices.ContainsFunc(ids, noHash) {
		return hinterr.Damaged("manifest %v: a layer without a digest, diff ID or size", digest)
	}
	// Few configs have a variant, and the oldest, of the time of one platform, have no platform.
	want := v1.Platform{OS: o.Platform.OS, Architecture: o.Platform.Architecture}
	if have := cf.Platform(); have != nil && !have.Satisfies(want) {
		return hinterr.Errorf(hinterr.ErrPlatform, "image %v is for %v, want %v", digest, have, &o.Platform)
	}
	s.Image = img
	return nil
}

// takeSchema1 makes the image of a schema 1 manifest, whose layers are in from, the source's.
func (s *Source) takeSchema1(ctx context.Context, raw []byte, from store, o Options) error {
	chain, digest, err := schema1.Parse(raw)
	if err != nil {
		return err
	}
	o.Progress.Note("%s is a docker schema 1 manifest: an OCI config is made of its history", blob.ShortHash(digest))
	img, err := chainImage(ctx, chain, from, o, func(l *schema1.Link) (io.ReadCloser, error) {
		rc, err := from.open(v1.Descriptor{Digest: l.Digest})
		if err != nil {
			return nil, err
		}
		return blob.Verified(rc, l.Digest, -1)
	})
	if err != nil {
		return fmt.Errorf("schema 1 manifest: %w", err)
	}
	s.Digest, s.Schema1 = digest.String(), true
	return s.take(img, o)
}
