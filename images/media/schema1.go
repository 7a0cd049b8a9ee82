// Where schema 1 manifests come from: a registry, or a directory or file beside the layers.

package media

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
)

// takeSchema1 makes the image of a schema 1 manifest, whose layers b has, the source's.
func (s *Source) takeSchema1(ctx context.Context, raw []byte, b blob.Blobs, o Options) error {
	img, m, err := schema1.Image(ctx, raw, b, o.Progress)
	if err != nil {
		return err
	}
	s.Digest, s.Made, s.Schema1 = m.Digest.String(), true, true
	return s.Take(img, o)
}

// takeRemoteSchema1 is takeSchema1 for a registry. The layers must be read to know what
// they are, and are kept until the source is closed.
func (s *Source) takeRemoteSchema1(ctx context.Context, at registry.Remote, n name.Reference, raw []byte, o Options) error {
	m, err := schema1.Parse(raw)
	if err != nil {
		return err
	}
	release := o.Net.Keep(m.Blobs())
	s.AtEnd(func() error { release(); return nil })
	err = s.takeSchema1(ctx, raw, at, o)
	// A registry's word for the digest of a signed manifest is not a proof.
	if d, ok := n.(name.Digest); ok && err == nil && d.DigestStr() != s.Digest {
		err = hinterr.Damaged("manifest %s: the registry sent content with the digest %s", d.DigestStr(), s.Digest)
	}
	if err != nil {
		release()
	}
	return err
}

// Names in the directories of skopeo's transport dir: (containers/image, directory/explanation):
// blobs are there under the digits of their digests, the manifests of an index as well.
const (
	DirManifest       = "manifest.json"
	dirManifestSuffix = ".manifest.json"
)

// besideManifest are the names that a blob may have beside a manifest: as in skopeo's dir:, under the whole digest, or
// as in a layout.
func besideManifest(h v1.Hash) []string {
	return []string{h.Hex, h.Hex + dirManifestSuffix, h.String(), h.Hex + ".tar", h.Hex + ".tar.gz", blobEntry(h)}
}

// manifestIn describes the manifest or index in a text; the zero value says that it is neither.
func manifestIn(raw []byte) v1.Descriptor {
	var m struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     types.MediaType `json:"mediaType"`
		Config        json.RawMessage `json:"config"`
		Layers        json.RawMessage `json:"layers"`
		Manifests     json.RawMessage `json:"manifests"`
	}
	if json.Unmarshal(raw, &m) != nil || m.SchemaVersion != 2 {
		return v1.Descriptor{}
	}
	d := v1.Descriptor{MediaType: m.MediaType}
	switch { // OCI does not demand the member mediaType
	case d.MediaType != "":
	case m.Manifests != nil:
		d.MediaType = types.OCIImageIndex
	case m.Config != nil && m.Layers != nil:
		d.MediaType = types.OCIManifestSchema1
	}
	if !d.MediaType.IsImage() && !d.MediaType.IsIndex() {
		return v1.Descriptor{}
	}
	d.Digest, d.Size, _ = v1.SHA256(bytes.NewReader(raw)) // of memory: never errs
	return d
}

// OpenManifest opens the image of a manifest in a file, whose blobs are beside it; nil
// without an error where the file holds none.
func OpenManifest(ctx context.Context, ref Ref, file string, o Options) (*Source, error) {
	raw, err := blob.ReadSmall(file, blob.MaxManifest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	src := &Source{Ref: ref}
	b := fileBlobs{directory(filepath.Dir(file)), besideManifest,
		"the layers must be beside the manifest, as 'skopeo copy docker://IMAGE dir:DIRECTORY' puts them"}
	if schema1.LooksSchema1(raw) {
		err = src.takeSchema1(ctx, raw, b, o)
	} else {
		d := manifestIn(raw)
		if d.MediaType == "" {
			return nil, nil
		}
		src.Digest = d.Digest.String()
		err = src.Choose(ctx, blob.MemBlobs{Data: map[v1.Hash][]byte{d.Digest: raw}, Next: b}, d, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return src, nil
}
