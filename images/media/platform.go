// Choosing the platform's image from an index, and checking that it is whole.

package media

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// Annotations with which buildkit marks the manifest of an attestation and names the image
// it is about (buildkit, docs/attestations/attestation-storage.md).
const (
	AttestationKey     = "vnd.docker.reference.type"
	AttestationSubject = "vnd.docker.reference.digest"
)

func isAttestation(d v1.Descriptor) bool { return d.Annotations[AttestationKey] != "" }

// Take makes img the source's image after checking that it is a whole image for the
// platform.
func (s *Source) Take(img v1.Image, o Options) error {
	if err := checkImage(img, o.Platform); err != nil {
		return err
	}
	s.Image = img
	return nil
}

// chooseFrom makes the platform's image of idx the source's image.
func (s *Source) chooseFrom(idx v1.ImageIndex, o Options) error {
	d, img, err := pick(idx, o.Platform, blob.MaxNesting)
	if err != nil {
		return err
	}
	s.Index, s.Entry = idx, d
	if err := s.Take(img, o); err != nil || !o.EveryLevel {
		return err
	}
	return s.levels(idx, map[v1.Hash]bool{d.Digest: true}, o, blob.MaxNesting)
}

// levels adds the images for the platform that an index, or an index in it, has beside the one that
// was chosen. One that a layout does not have is passed over.
func (s *Source) levels(idx v1.ImageIndex, seen map[v1.Hash]bool, o Options, depth int) error {
	m, err := idx.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range m.Manifests {
		switch {
		case seen[d.Digest] || isAttestation(d):
		case d.MediaType.IsIndex() && depth > 0:
			sub, err := idx.ImageIndex(d.Digest)
			if err == nil {
				err = s.levels(sub, seen, o, depth-1)
			}
			if err != nil && !errors.Is(err, hinterr.ErrNotFound) {
				return err
			}
		case d.MediaType.IsImage() && d.Platform != nil && anyLevel(*d.Platform, o.Platform):
			seen[d.Digest] = true
			img, err := idx.Image(d.Digest)
			if errors.Is(err, hinterr.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			level := *s
			level.Entry, level.Digest, level.Levels, level.Close = d, d.Digest.String(), nil, func() error { return nil }
			every := o
			every.Platform = *d.Platform
			if err := level.Take(img, every); err != nil {
				return err
			}
			s.Levels = append(s.Levels, &level)
		}
	}
	return nil
}

// anyLevel reports whether have is want at any level of x86-64.
func anyLevel(have, want v1.Platform) bool {
	want.Variant = "v4"
	return platformRank(have, want) > 0
}

// pick finds the platform's image in an index, or in an index in it. Without one the error
// lists what there is.
func pick(idx v1.ImageIndex, want v1.Platform, depth int) (v1.Descriptor, v1.Image, error) {
	var offered []string
	d, img, err := pickFrom(idx, want, depth, &offered)
	if err != nil || img != nil {
		return d, img, err
	}
	if len(offered) == 0 {
		return d, nil, hinterr.Errorf(hinterr.ErrPlatform, "no image in the index, nor in those in it down to %d levels", depth)
	}
	sort.Strings(offered)
	if len(offered) > maxListed {
		offered = append(offered[:maxListed], "…")
	}
	return d, nil, hinterr.Errorf(hinterr.ErrPlatform, "no image for %s in the index, which has: %s",
		want.String(), strings.Join(offered, ", "))
}

// pickFrom is pick without the error for a missing image: the image is nil then, and
// offered has the platforms that were seen.
func pickFrom(idx v1.ImageIndex, want v1.Platform, depth int, offered *[]string) (v1.Descriptor, v1.Image, error) {
	none := v1.Descriptor{}
	m, err := idx.IndexManifest()
	if err != nil {
		return none, nil, err
	}
	best, rank := none, 0
	for _, d := range m.Manifests {
		if isAttestation(d) || !d.MediaType.IsImage() {
			continue
		}
		p := d.Platform
		if p == nil {
			// Not said in the index: the config says it.
			img, err := idx.Image(d.Digest)
			if err != nil {
				return none, nil, err
			}
			if m, err := img.Manifest(); err != nil {
				return none, nil, err
			} else if !m.Config.MediaType.IsConfig() {
				continue // an artifact, in the form of an image
			}
			if p, err = configPlatform(img); err != nil {
				return none, nil, err
			}
		}
		*offered = append(*offered, p.String())
		if r := platformRank(*p, want); r > rank {
			best, rank = d, r
		}
	}
	if rank > 0 {
		img, err := idx.Image(best.Digest)
		return best, img, err
	}
	for _, d := range m.Manifests {
		if !d.MediaType.IsIndex() || depth == 0 {
			continue
		}
		sub, err := idx.ImageIndex(d.Digest)
		if err != nil {
			return none, nil, err
		}
		if e, img, err := pickFrom(sub, want, depth-1, offered); err != nil || img != nil {
			return e, img, err
		}
	}
	return none, nil, nil
}

// configPlatform reads an image's platform from its config.
func configPlatform(img v1.Image) (*v1.Platform, error) {
	cf, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return &v1.Platform{OS: cf.OS, Architecture: cf.Architecture, Variant: cf.Variant}, nil
}

// platformRank says how well a platform fits the one asked for: 0 not at all, more is
// better. A variant of amd64 is a level of instructions: with none asked for the lowest
// there is wins, else the highest that is not above what was asked for.
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

// maxAMD64Level is the highest x86-64 microarchitecture level (System V ABI, AMD64
// supplement, 3.1.1).
const maxAMD64Level = 4

// amd64Level is 1 to 4, and 0 for anything but a level.
func amd64Level(variant string) int {
	switch variant {
	case "", "v1":
		return 1
	case "v2":
		return 2
	case "v3":
		return 3
	case "v4":
		return maxAMD64Level
	}
	return 0
}

// archName gives Go's word for an architecture; configs from before there was a rule have
// the kernel's.
func archName(s string) string {
	switch s = strings.ToLower(s); s {
	case "x86_64", "x86-64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return s
}

// matchingEntries keeps the images, out of several without an index, that fit the platform.
func matchingEntries(entries []v1.Descriptor, b blob.Blobs, want v1.Platform) ([]v1.Descriptor, error) {
	var fit []v1.Descriptor
	for _, d := range entries {
		if !d.MediaType.IsImage() {
			if d.MediaType.IsIndex() || d.MediaType.IsSchema1() || d.MediaType == "" {
				fit = append(fit, d)
			}
			continue
		}
		p := d.Platform
		if p == nil {
			img, err := blob.NewStoredImage(b, d)
			if err != nil {
				return nil, err
			}
			if p, err = configPlatform(img); err != nil {
				return nil, err
			}
		}
		if platformRank(*p, want) > 0 {
			fit = append(fit, d)
		}
	}
	return fit, nil
}

// checkImage checks what can be checked without reading a layer: that manifest and config
// agree on the layers, that each size is one, and that the platform is the one wanted.
func checkImage(img v1.Image, want v1.Platform) error {
	m, err := img.Manifest()
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	for n, d := range m.Layers {
		if d.Size < 0 {
			return hinterr.Damaged("manifest %v: layer %d: %d bytes", digest, n, d.Size)
		}
		if d.Digest.Hex == "" {
			return hinterr.Damaged("manifest %v: layer %d has no digest", digest, n)
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
		if t := m.Config.MediaType; t != types.OCIConfigJSON && t != types.DockerConfigJSON && t != "" {
			return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "manifest %v is an artifact with a config of type %s, not an image", digest, t),
				"name the image that the artifact is about")
		}
		return hinterr.Damaged("config %v: got %d diff IDs, want %d as manifest %v has layers",
			m.Config.Digest, len(cf.RootFS.DiffIDs), len(m.Layers), digest)
	}
	for n, h := range cf.RootFS.DiffIDs {
		if h.Hex == "" {
			return hinterr.Damaged("config %v: diff ID %d is empty", m.Config.Digest, n)
		}
	}
	have := v1.Platform{OS: cf.OS, Architecture: cf.Architecture, Variant: cf.Variant}
	if have.OS == "" && have.Architecture == "" {
		return nil // the oldest configs do not say, and there was one platform then
	}
	if platformRank(have, want) == 0 {
		return hinterr.Errorf(hinterr.ErrPlatform, "image %v is for %s, want %s", digest, have.String(), want.String())
	}
	return nil
}
