// The manifest of a derived image, compared with what a rebuild makes of the base's.

package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
)

// hasManifest reports whether a source has the image's manifest: a daemon, an archive of
// its and a SIF file have none.
func hasManifest(src *media.Source) bool {
	switch src.Ref.Transport {
	case media.Daemon, media.DockerArchive, media.SIF:
		return false
	}
	return !src.Made
}

// manifest compares the manifest with what a rebuild makes of the base's.
func (v *verification) manifest(ctx context.Context, from derivation, config []byte) error {
	if !hasManifest(v.after.Src) {
		v.skip("manifest: %v has none", v.after.Src.Ref)
		return v.reread(ctx, nil, nil)
	}
	raw, err := v.after.Src.Image.RawManifest()
	if err != nil {
		return err
	}
	var want, got manifestText
	if err := got.parse(raw); err != nil {
		return fmt.Errorf("%v: %w", v.after.Src.Ref, err)
	}
	base := got.bare(len(v.base.T.Layers))
	if hasManifest(v.base.Src) {
		if base, err = v.base.Src.Image.RawManifest(); err != nil {
			return err
		}
	} else {
		v.skip("manifest: %v has none: what it says of the base's layers", v.base.Src.Ref)
	}
	if v.derived() {
		if base, err = v.derivedManifest(base, &got, from, config); err != nil {
			return fmt.Errorf("%v: %w", v.base.Src.Ref, err)
		}
	}
	if err := want.parse(base); err != nil {
		return fmt.Errorf("%v: %w", v.base.Src.Ref, err)
	}
	if err := jsonobject.Edit(want.rest, "config", func(c *jsonobject.Object) error { // it was compared
		digest, size, err := v1.SHA256(bytes.NewReader(config))
		(*c)["digest"], _ = jsonobject.Encode(digest)
		(*c)["size"], _ = jsonobject.Encode(size)
		return err
	}); err != nil {
		return fmt.Errorf("%v: manifest: %w", v.base.Src.Ref, err)
	}
	if err := v.reread(ctx, &want, &got); err != nil {
		return err
	}
	if key := duplicateKey(json.NewDecoder(bytes.NewReader(raw))); key != "" {
		v.problem("manifest: %s: there twice", key)
	}
	v.object("manifest", want.rest, got.rest)
	if len(want.layers) != len(got.layers) {
		v.problem("manifest: got %d layers, want %d", len(got.layers), len(want.layers))
		return nil
	}
	for n := range want.layers {
		v.object(fmt.Sprintf("manifest: layer %d", n), want.layers[n], got.layers[n])
	}
	return nil
}

// textImage is an image under another manifest.
type textImage struct {
	v1.Image
	manifest []byte
}

func (t textImage) RawManifest() ([]byte, error) { return t.manifest, nil }

// derivedManifest is what a rebuild makes of the base's manifest, with the added layer that
// the source has.
func (v *verification) derivedManifest(base []byte, got *manifestText, from derivation, config []byte) ([]byte, error) {
	var added v1.Descriptor
	if n := len(got.layers); n > 0 {
		if err := decode(got.layers[n-1], &added); err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
	}
	d := &derivedImage{
		base: textImage{v.base.Src.Image, base}, oci: !got.docker, from: from, config: config,
		added: &contents.AddedLayer{PackedDigest: added.Digest, PackedSize: added.Size},
	}
	return d.makeManifest()
}

// manifestText is a manifest, taken apart, with OCI's names for media types.
type manifestText struct {
	rest   jsonobject.Object // without the layers
	layers []jsonobject.Object
	docker bool
}

func (m *manifestText) parse(raw []byte) error {
	if err := json.Unmarshal(raw, &m.rest); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	if err := json.Unmarshal(m.rest["layers"], &m.layers); err != nil {
		return fmt.Errorf("manifest: layers: %w", err)
	}
	delete(m.rest, "layers")
	m.docker = sameJSON(m.rest["mediaType"], []byte(`"`+types.DockerManifestSchema2+`"`))
	if err := jsonobject.Edit(m.rest, "config", func(c *jsonobject.Object) error {
		if *c == nil {
			return hinterr.Damaged("missing")
		}
		ociName(*c)
		return nil
	}); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	ociName(m.rest)
	for _, l := range m.layers {
		ociName(l)
	}
	return nil
}

// ociName gives the media type of a descriptor or manifest its OCI name.
func ociName(o jsonobject.Object) {
	var t types.MediaType
	if json.Unmarshal(o["mediaType"], &t) == nil && o != nil {
		o["mediaType"], _ = jsonobject.Encode(media.OCIName(t))
	}
}

// bare is the manifest that a base has of which nothing is known but its layers, the first n.
func (m *manifestText) bare(n int) []byte {
	layers := []jsonobject.Object{}
	for _, l := range m.layers[:min(n, len(m.layers))] {
		layers = append(layers, jsonobject.Object{"mediaType": l["mediaType"], "digest": l["digest"], "size": l["size"]})
	}
	raw, _ := jsonobject.Encode(map[string]any{
		"schemaVersion": 2, "mediaType": m.rest["mediaType"], "layers": layers,
		"config": map[string]any{"mediaType": types.OCIConfigJSON},
	})
	return raw
}

// reread reads those layers of the base, as the source has them, that are not the base's own
// blobs: they were not read so far, as the config says that they hold the same. How they are
// compressed is no difference then.
func (v *verification) reread(ctx context.Context, want, got *manifestText) error {
	layers, err := v.after.Src.Image.Layers()
	if err != nil {
		return err
	}
	base, err := v.base.Src.Image.Layers()
	if err != nil {
		return err
	}
	for n, l := range layers[:min(len(base), len(layers))] {
		known := want != nil && hasManifest(v.base.Src) && n < min(len(want.layers), len(got.layers))
		if known && sameJSON(want.layers[n]["digest"], got.layers[n]["digest"]) || !media.AtHand(l) {
			continue
		}
		ls, err := blob.OpenLayer(ctx, l, v.s.Progress)
		if err != nil {
			return err
		}
		if _, err = io.Copy(io.Discard, ls); err == nil {
			err = ls.Finish()
		}
		ls.Close()
		if err != nil {
			return ls.Wrap(err)
		}
		if known {
			for _, key := range []string{"mediaType", "digest", "size"} {
				want.layers[n][key] = got.layers[n][key]
			}
		}
	}
	return nil
}
