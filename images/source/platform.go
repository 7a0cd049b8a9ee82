// Choosing the platform's image from an index, and checking that it is complete.

package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
)

// maxListed is how many names an error or a hint lists.
const maxListed = 20

// Annotations with which buildkit marks the manifest of an attestation and names the image that it is about
// (buildkit, docs/attestations/attestation-storage.md).
const (
	AttestationKey     = "vnd.docker.reference.type"
	AttestationSubject = "vnd.docker.reference.digest"
)

func isAttestation(d v1.Descriptor) bool { return d.Annotations[AttestationKey] != "" }

// choose sets the source's image from what d names: an image, or an index to take the platform's image from.
func (s *Source) choose(ctx context.Context, from store, d v1.Descriptor, o Options) error {
	switch {
	case d.MediaType.IsIndex():
		idx, err := storedIndex(from, d)
		if err != nil {
			return err
		}
		return s.chooseFrom(idx, o)
	case d.MediaType.IsImage():
		img, err := storedImage(from, d)
		if err != nil {
			return err
		}
		return s.take(img, o)
	case schema1.IsSchema1(d.MediaType):
		raw, err := read(from, d, "manifest", blob.MaxManifest)
		if err != nil {
			return err
		}
		return s.takeSchema1(ctx, raw, from, o)
	}
	return hinterr.Errorf(hinterr.ErrUnsupported, "manifest %v: media type %q is not an image", d.Digest, d.MediaType)
}

// take makes img the source's image after checking that it is a whole image for the platform.
func (s *Source) take(img v1.Image, o Options) error {
	if err := checkImage(img, o.Platform); err != nil {
		return err
	}
	s.Image = img
	return nil
}

// chooseFrom makes the platform's image of idx the source's image.
func (s *Source) chooseFrom(idx v1.ImageIndex, o Options) error {
	all, err := offers(idx)
	if err != nil {
		return err
	}
	best, err := bestOf(all, o.Platform)
	if err != nil {
		return err
	}
	img, err := idx.Image(best.Digest)
	if err != nil {
		return err
	}
	s.Index, s.Entry = idx, best
	return s.take(img, o)
}

// offers lists the images of an index, each with its platform: as the index or, if it does not say it, the config has
// it. Images that a layout does not have are skipped; it errs if all are missing. An index in an index, which no
// builder writes, is not looked into.
func offers(idx v1.ImageIndex) (all []v1.Descriptor, err error) {
	m, err := idx.IndexManifest()
	if err != nil {
		return nil, err
	}
	var missing error
	for _, d := range m.Manifests {
		if isAttestation(d) || !d.MediaType.IsImage() {
			continue
		}
		d.Platform, err = platformOf(d, idx.Image)
		switch {
		case errors.Is(err, hinterr.ErrNotFound):
			missing = err
		case err != nil:
			return nil, err
		case d.Platform != nil:
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return nil, missing
	}
	return all, nil
}

// platformOf is the platform that a descriptor says, else that of the image's config; nil for an artifact in the form
// of an image.
func platformOf(d v1.Descriptor, open func(v1.Hash) (v1.Image, error)) (*v1.Platform, error) {
	if d.Platform != nil {
		return d.Platform, nil
	}
	img, err := open(d.Digest)
	if err != nil {
		return nil, err
	}
	m, err := img.Manifest()
	if err != nil || m.Config.MediaType != "" && !m.Config.MediaType.IsConfig() {
		return nil, err
	}
	cf, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return &v1.Platform{OS: cf.OS, Architecture: cf.Architecture, Variant: cf.Variant}, nil
}

// bestOf chooses the image for a platform. Without one the error lists what there is.
func bestOf(all []v1.Descriptor, want v1.Platform) (best v1.Descriptor, err error) {
	rank := 0
	var names []string
	for _, d := range all {
		if r := platformRank(*d.Platform, want); r > rank {
			best, rank = d, r
		}
		names = append(names, d.Platform.String())
	}
	if rank > 0 {
		return best, nil
	}
	if len(all) == 0 {
		return best, hinterr.Errorf(hinterr.ErrPlatform, "no image in the index")
	}
	slices.Sort(names)
	if len(names) > maxListed {
		names = append(names[:maxListed], "…")
	}
	return best, hinterr.Errorf(hinterr.ErrPlatform, "no image for %s in the index, which has: %s", want.String(), strings.Join(names, ", "))
}

// platformRank says how well a platform fits the requested one: 0 not at all, more is better. A variant of amd64 is a
// level of instructions: if none was requested, the lowest wins, else the highest that is not above the requested one.
func platformRank(have, want v1.Platform) int {
	if !strings.EqualFold(have.OS, want.OS) || archName(have.Architecture) != archName(want.Architecture) {
		return 0
	}
	if archName(want.Architecture) != "amd64" {
		if have.Variant == want.Variant || want.Variant == "" {
			return 1
		}
		return 0
	}
	h, w := amd64Level(have.Variant), amd64Level(want.Variant)
	switch {
	case h == 0:
		return 0
	case want.Variant == "":
		return maxAMD64Level + 1 - h
	case h > w:
		return 0
	}
	return h
}

// maxAMD64Level is the highest x86-64 microarchitecture level (System V ABI, AMD64 supplement, 3.1.1).
const maxAMD64Level = 4

// amd64Level is 1 to 4, and 0 for anything but a level.
func amd64Level(variant string) int {
	return slices.Index([]string{"v1", "v2", "v3", "v4"}, cmp.Or(variant, "v1")) + 1
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

// checkImage checks what can be checked without reading a layer: that manifest and config agree on the layers, that
// each size is one, and that the platform is the requested one.
func checkImage(img v1.Image, want v1.Platform) error {
	m, err := img.Manifest()
	digest, derr := img.Digest()
	if err := cmp.Or(err, derr); err != nil {
		return err
	}
	for n, d := range m.Layers {
		if d.Size < 0 || d.Digest.Hex == "" {
			return hinterr.Damaged("manifest %v: layer %d: digest %q, %d bytes", digest, n, d.Digest, d.Size)
		}
	}
	if m.Config.Digest.Hex == "" {
		return hinterr.Damaged("manifest %v: without the digest of a config", digest)
	}
	cf, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("config %v: %w", m.Config.Digest, err)
	}
	if len(cf.RootFS.DiffIDs) != len(m.Layers) {
		if t := m.Config.MediaType; t != "" && !t.IsConfig() {
			return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "manifest %v is an artifact with a config of type %s, not an image", digest, t),
				"name the image that the artifact is about")
		}
		return hinterr.Damaged("config %v: got %d diff IDs, want %d, one for each layer of manifest %v",
			m.Config.Digest, len(cf.RootFS.DiffIDs), len(m.Layers), digest)
	}
	for n, h := range cf.RootFS.DiffIDs {
		if h.Hex == "" {
			return hinterr.Damaged("config %v: diff ID %d is empty", m.Config.Digest, n)
		}
	}
	have := v1.Platform{OS: cf.OS, Architecture: cf.Architecture, Variant: cf.Variant}
	unstated := have.OS == "" && have.Architecture == "" // in the oldest configs, of the time of one platform
	if !unstated && platformRank(have, want) == 0 {
		return hinterr.Errorf(hinterr.ErrPlatform, "image %v is for %s, want %s", digest, have.String(), want.String())
	}
	return nil
}

// takeSchema1 makes the image of a schema 1 manifest, whose layers are in from, the source's.
func (s *Source) takeSchema1(ctx context.Context, raw []byte, from store, o Options) error {
	old, err := schema1.Open(raw, func(h v1.Hash) (schema1.Content, error) { return measureBlob(ctx, from, h, o) })
	if err != nil {
		return err
	}
	o.Progress.Note("%s is a docker schema 1 manifest: an OCI config is made of its history", blob.ShortHash(old.Digest))
	img, err := madeImage(old.Manifest, old.Config, from)
	if err != nil {
		return err
	}
	s.Digest, s.Made, s.Schema1 = old.Digest.String(), true, true
	return s.take(img, o)
}

// measureBlob reads a layer of an old image once, for its diff ID and size.
func measureBlob(ctx context.Context, from store, h v1.Hash, o Options) (c schema1.Content, err error) {
	rc, size, err := from.open(v1.Descriptor{Digest: h, Size: -1})
	if err != nil {
		return c, err
	}
	task := o.Progress.Start("read", blob.ShortHash(h), size)
	defer task.Done()
	checked, err := blob.Verified(rc, h, size)
	if err != nil {
		return c, err
	}
	defer checked.Close()
	return schema1.Measure(ctx, blob.Reading{Ctx: ctx, Reader: checked, T: task})
}
