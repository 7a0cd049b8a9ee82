// Docker schema 1 manifests (distribution, docs/spec/manifest-v2-1.md), which registries
// had until 2016 and engines do not read any more: docker 29 and containerd 2.1 dropped
// them. Such a manifest lists layers, the topmost first, and beside each the image JSON
// that the engine had for it; it knows no sizes, no diff IDs and no config.

package schema1

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// Manifest is a manifest of schema 1.
type Manifest struct {
	SchemaVersion int    `json:"schemaVersion"`
	Architecture  string `json:"architecture"`
	FSLayers      []struct {
		BlobSum string `json:"blobSum"`
	} `json:"fsLayers"`
	History []struct {
		V1Compatibility string `json:"v1Compatibility"`
	} `json:"history"`

	Digest     v1.Hash `json:"-"` // of the manifest without its signatures
	signatures int     // how many there are, all checked
}

// Parse reads a manifest and checks its signatures. Without one, as the media type
// without +prettyjws has it, only its digest shows whether it is whole.
func Parse(raw []byte) (*Manifest, error) {
	payload, signatures, err := signedPayload(raw)
	if err != nil {
		return nil, fmt.Errorf("schema 1 manifest: %w", err)
	}
	m := &Manifest{signatures: signatures}
	if err := json.Unmarshal(payload, m); err != nil {
		return nil, hinterr.Damaged("schema 1 manifest: %v", err)
	}
	switch {
	case m.SchemaVersion != 1:
		return nil, hinterr.Damaged("schema 1 manifest: got version %d", m.SchemaVersion)
	case len(m.FSLayers) == 0:
		return nil, hinterr.Damaged("schema 1 manifest: no layers")
	case len(m.FSLayers) != len(m.History):
		return nil, hinterr.Damaged("schema 1 manifest: got %d layers, want %d, one for each history entry", len(m.FSLayers), len(m.History))
	}
	m.Digest, _, err = v1.SHA256(bytes.NewReader(payload))
	return m, err
}

// Blobs are the digests of its layers; one that is damaged is left out.
func (m *Manifest) Blobs() (all []v1.Hash) {
	for _, l := range m.FSLayers {
		if h, err := v1.NewHash(l.BlobSum); err == nil && !slices.Contains(all, h) {
			all = append(all, h)
		}
	}
	return all
}

// Chain gives the layers of a manifest, the base layer first. The chain must be one: each
// layer names the one below as its parent. A layer that is there twice in a row, as
// some old registries have it, is one (moby, distribution/pull_v2.go, fixManifestLayers).
func (m *Manifest) Chain() ([]OldLayer, error) {
	var chain []OldLayer
	seen := map[string]bool{}
	for n := len(m.History) - 1; n >= 0; n-- {
		l, err := NewOldLayer([]byte(m.History[n].V1Compatibility))
		if err != nil {
			return nil, fmt.Errorf("schema 1 manifest: layer %d: %w", n, err)
		}
		if l.Digest, err = v1.NewHash(m.FSLayers[n].BlobSum); err != nil {
			return nil, hinterr.Damaged("schema 1 manifest: layer %d: blobSum %.80q is not a digest", n, m.FSLayers[n].BlobSum)
		}
		below := ""
		if len(chain) > 0 {
			below = chain[len(chain)-1].ID
		}
		switch {
		case l.ID == below:
			continue
		case seen[l.ID]:
			return nil, hinterr.Damaged("schema 1 manifest: layer %d: the ID %.12s is there twice", n, l.ID)
		case l.Parent != below:
			return nil, hinterr.Damaged("schema 1 manifest: layer %d: got the parent %.12q, want %.12q, the layer below", n, l.Parent, below)
		}
		seen[l.ID] = true
		chain = append(chain, l)
	}
	return chain, nil
}

// Image makes an image of a manifest. b must have its layers; each is read once.
func Image(ctx context.Context, raw []byte, b blob.Blobs, p progress.Reporter) (*blob.Image, *Manifest, error) {
	m, err := Parse(raw)
	if err != nil {
		return nil, nil, err
	}
	chain, err := m.Chain()
	if err != nil {
		return nil, nil, err
	}
	for i := range chain {
		l := &chain[i]
		if l.json.Throwaway {
			continue
		}
		// Blobs repeat: the same step was done twice.
		if k := slices.IndexFunc(chain[:i], func(o OldLayer) bool { return o.Digest == l.Digest && !o.json.Throwaway }); k >= 0 {
			l.DiffID, l.size, l.Packed, l.empty = chain[k].DiffID, chain[k].size, chain[k].Packed, chain[k].empty
			continue
		}
		if err := measureBlob(ctx, l, b, p); err != nil {
			return nil, nil, fmt.Errorf("layer %s: %w", blob.ShortHash(l.Digest), err)
		}
	}
	img, err := OldImage(chain, m.Architecture, b)
	if err != nil {
		return nil, nil, err
	}
	word := "not signed"
	if m.signatures > 0 {
		word = "its signature is sound"
	}
	progress.Note(p, "%s is a docker schema 1 manifest, %s: an OCI config is made of its history", blob.ShortHash(m.Digest), word)
	return img, m, nil
}

func measureBlob(ctx context.Context, l *OldLayer, b blob.Blobs, p progress.Reporter) error {
	rc, size, err := b.Open(v1.Descriptor{Digest: l.Digest, Size: -1})
	if err != nil {
		return err
	}
	task := p.Start("read", blob.ShortHash(l.Digest), size)
	defer task.Done()
	checked, err := blob.Verified(rc, l.Digest, size)
	if err != nil {
		return err
	}
	defer checked.Close()
	return l.Measure(ctx, blob.Reading{Ctx: ctx, Reader: checked, T: task})
}
