// Choosing the platform's image from an index, and checking that it is complete.

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

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
	img, err := storedImage(from, d)
	if err != nil {
		return err
	}
	return s.take(img, o)
}

// platformEntry chooses the image for a platform: if no level of instructions is requested, that with the lowest, else
// the highest that is not above it. An index in an index, which no builder writes, is not looked into. Without an image
// for the platform the error lists what there is.
func platformEntry(idx *index, want v1.Platform) (best v1.Descriptor, err error) {
	var names []string
	for _, d := range idx.parsed.Manifests {
		if isAttestation(d) || !d.MediaType.IsImage() {
			continue
		}
		if d.Platform, err = platformOf(d, idx.from); err != nil {
			return best, err
		}
		if d.Platform == nil {
			continue
		}
		names = append(names, d.Platform.String())
		if fits(*d.Platform, want) && (best.Platform == nil || isBetter(d.Platform.Variant, best.Platform.Variant, want)) {
			best = d
		}
	}
	if best.Platform == nil {
		slices.Sort(names)
		err = hinterr.Errorf(hinterr.ErrPlatform, "no image for %v in the index, which has: %v", &want, names)
	}
	return best, err
}

// platformOf is the platform that a descriptor says, else that of the image's config; nil for an artifact in the form
// of an image, and for an image that is not there.
func platformOf(d v1.Descriptor, from store) (*v1.Platform, error) {
	if d.Platform != nil {
		return d.Platform, nil
	}
	img, err := storedImage(from, d)
	if errors.Is(err, hinterr.ErrNotFound) || err == nil && !isConfig(img.manifest.Config.MediaType) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	cf, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return cf.Platform(), nil
}

// isConfig reports whether a media type, which may be missing, is that of an image's config, and not an artifact's.
func isConfig(t types.MediaType) bool { return t == "" || t.IsConfig() }

// fits reports whether an image runs on a platform. The variants of an architecture are levels of its instructions,
// in the order of their names; none is the lowest.
func fits(have, want v1.Platform) bool {
	sameKind := strings.EqualFold(have.OS, want.OS) && archName(have.Architecture) == archName(want.Architecture)
	return sameKind && (want.Variant == "" || have.Variant <= want.Variant)
}

func isBetter(variant, than string, want v1.Platform) bool {
	if want.Variant == "" {
		return variant < than
	}
	return variant > than
}

// archName gives Go's word for an architecture; configs from before there was a rule have the kernel's.
func archName(s string) string {
	switch s = strings.ToLower(s); s {
	case "x86_64", "x86-64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return s
}

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
	if have := cf.Platform(); have != nil && !fits(*have, o.Platform) { // the oldest configs, of the time of one platform, have none
		return hinterr.Errorf(hinterr.ErrPlatform, "image %v is for %v, want %v", digest, have, &o.Platform)
	}
	s.Image = img
	return nil
}

// takeSchema1 makes the image of a schema 1 manifest, whose layers are in from, the source's.
func (s *Source) takeSchema1(ctx context.Context, raw []byte, from store, o Options) error {
	old, err := schema1.Parse(raw)
	if err != nil {
		return err
	}
	chain, config, err := schema1.Assemble(old.Chain, old.Architecture, func(l schema1.Link) (c schema1.Content, err error) {
		rc, err := from.open(v1.Descriptor{Digest: l.Digest})
		if err == nil {
			rc, err = blob.Verified(rc, l.Digest, -1)
		}
		if err != nil {
			return c, err
		}
		defer rc.Close()
		return measure(ctx, rc, blob.ShortHash(l.Digest), -1, o)
	})
	if err != nil {
		return fmt.Errorf("schema 1 manifest: %w", err)
	}
	layers := []v1.Descriptor{}
	for _, l := range chain {
		layers = append(layers, v1.Descriptor{MediaType: schema1.LayerTypes[l.Packed], Size: l.Size, Digest: l.Digest})
	}
	o.Progress.Note("%s is a docker schema 1 manifest: an OCI config is made of its history", blob.ShortHash(old.Digest))
	img, err := madeImage(types.DockerManifestSchema2, layers, config, from)
	if err != nil {
		return err
	}
	s.Digest, s.Made, s.Schema1 = old.Digest.String(), true, true
	return s.take(img, o)
}

// measure reads a layer of an old image once, for its diff ID and size.
func measure(ctx context.Context, r io.Reader, title string, size int64, o Options) (schema1.Content, error) {
	task := o.Progress.Start("read", title, size)
	defer task.Done()
	return schema1.Measure(ctx, blob.Reading{Ctx: ctx, Reader: r, T: task})
}
