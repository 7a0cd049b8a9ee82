// Docker schema 1 manifests (distribution, docs/spec/manifest-v2-1.md), which registries had until 2016 and engines
// no longer read: docker 29 and containerd 2.1 dropped them. Such a manifest lists layers, the topmost first, and
// with each the image JSON that the engine had for it; it has no sizes, no diff IDs and no config.
//
// Its signatures (JSON Web Signatures in docker's own form) are at its end. They are not checked: the key comes with
// the signature. The digest is that of the text without them, of which the protected header says the length:
//
//	{ "name": …, "history": […]           formatLength bytes
//	  , "signatures": [{"protected": base64({"formatLength": …, "formatTail": base64("\n}")}), …}]
//	}

package schema1

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/hinterr"
)

// manifest is the text of one.
type manifest struct {
	SchemaVersion int `json:"schemaVersion"`
	FSLayers      []struct {
		BlobSum string `json:"blobSum"`
	} `json:"fsLayers"`
	History []struct {
		V1Compatibility string `json:"v1Compatibility"`
	} `json:"history"`
	Signatures []struct {
		Protected string `json:"protected"`
	} `json:"signatures"`
}

// IsSchema1 reports whether a text is a manifest of schema 1, whatever its media type: some registries serve it as
// application/json.
func IsSchema1(raw []byte) bool {
	var m manifest
	return json.Unmarshal(raw, &m) == nil && m.SchemaVersion == 1 && m.FSLayers != nil
}

// Parse reads a manifest, and returns its layers, the base layer first, and the digest of its text without signatures.
func Parse(raw []byte) (chain []Link, digest v1.Hash, err error) {
	payload, err := withoutSignatures(raw)
	var m manifest
	if err == nil {
		err = json.Unmarshal(payload, &m)
	}
	if err != nil {
		return nil, digest, hinterr.Damaged("schema 1 manifest: %v", err)
	}
	if got, want := len(m.FSLayers), len(m.History); got == 0 || got != want {
		return nil, digest, hinterr.Damaged("schema 1 manifest: got %d layers, want %d, one for each history entry", got, want)
	}
	if chain, err = m.chain(); err != nil {
		return nil, digest, fmt.Errorf("schema 1 manifest: %w", err)
	}
	digest, _, err = v1.SHA256(bytes.NewReader(payload))
	return chain, digest, err
}

// chain gives the layers, the base layer first. Each must name the one below as its parent. A layer that is there
// twice in a row, as some old registries have it, is one (moby, distribution/pull_v2.go, fixManifestLayers).
func (m *manifest) chain() ([]Link, error) {
	var chain []Link
	seen := map[string]bool{}
	below := ""
	for n := len(m.History) - 1; n >= 0; n-- {
		var l Link
		err := json.Unmarshal([]byte(m.History[n].V1Compatibility), &l)
		if err == nil {
			l.Digest, err = v1.NewHash(m.FSLayers[n].BlobSum)
		}
		switch {
		case err != nil:
			return nil, hinterr.Damaged("layer %d: %w", n, err)
		case l.ID == below:
			continue
		case seen[l.ID]:
			return nil, hinterr.Damaged("layer %d: the ID %.12s is there twice", n, l.ID)
		case l.Parent != below:
			return nil, hinterr.Damaged("layer %d: got the parent %.12q, want %.12q, the layer below", n, l.Parent, below)
		}
		seen[l.ID], below = true, l.ID
		chain = append(chain, l)
	}
	return chain, nil
}

// withoutSignatures returns the text that the signatures of a manifest are about.
func withoutSignatures(raw []byte) ([]byte, error) {
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil || len(m.Signatures) == 0 {
		return raw, err
	}
	var h struct {
		FormatLength int    `json:"formatLength"`
		FormatTail   string `json:"formatTail"`
	}
	text, err := base64.RawURLEncoding.DecodeString(m.Signatures[0].Protected)
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err == nil && (h.FormatLength <= 0 || h.FormatLength > len(raw)) {
		err = fmt.Errorf("formatLength %d is outside of the manifest, which has %d bytes", h.FormatLength, len(raw))
	}
	tail, terr := base64.RawURLEncoding.DecodeString(h.FormatTail)
	if err := cmp.Or(err, terr); err != nil {
		return nil, fmt.Errorf("protected header: %w", err)
	}
	return append(bytes.Clone(raw[:h.FormatLength]), tail...), nil
}
