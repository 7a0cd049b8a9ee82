// The texts of a derived image, its config, manifest and index, compared with those that vfix makes
// of the base's: with the names that the image itself says of its base and of vfix's version, which
// must be the same wherever it says them.

package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/tidwall/gjson"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
)

// config compares the image configs, and returns the source's.
func (v *comparison) config() (after []byte, err error) {
	base, err := v.base.Src.Image.RawConfigFile()
	if err != nil {
		return nil, fmt.Errorf("%v: image config: %w", v.base.Src.Ref, err)
	}
	if after, err = v.after.Src.Image.RawConfigFile(); err != nil {
		return nil, fmt.Errorf("%v: image config: %w", v.after.Src.Ref, err)
	}
	if !v.layered {
		// A SIF file has its config in files, which are compared; the layers are one.
		return after, v.out.texts("image config", base, after, "rootfs")
	}
	var labels struct {
		Config struct{ Labels map[string]string }
	}
	json.Unmarshal(after, &labels) // what is not of this form differs from what is derived
	l := labels.Config.Labels
	v.from = v.c.derivation(l[keyBaseName], l[keyBaseDigest], l[keyVersion], false)
	want := base
	if layers := v.after.T.Layers; v.derived() {
		added := layers[len(layers)-1].DiffID // it has been compared
		if want, err = editConfig(base, len(v.base.T.Layers), added, v.from); err != nil {
			return nil, fmt.Errorf("%v: image config: %w", v.base.Src.Ref, err)
		}
		if err := v.baseNamed(); err != nil {
			return nil, err
		}
	}
	return after, v.out.texts("image config", want, after)
}

// baseNamed notes where the version is not this one, and where the name and the digest that the source gives its base are not those that
// the base has here. They may be those of another copy of it: the same layers and config under
// another manifest.
func (v *comparison) baseNamed() error {
	if v.o.Version != "" && v.from.Version != v.o.Version {
		v.out.skip("label %s: made by vfix %s, and this is vfix %s", keyVersion, v.from.Version, v.o.Version)
	}
	if v.undone {
		return nil
	}
	if name := media.BaseName(v.base.Src.Ref); v.from.BaseName != name {
		v.out.skip("label %s: %q is not the name of %v as it was given here", keyBaseName, v.from.BaseName, v.base.Src.Ref)
	}
	digests, err := provenance.DigestsOf(v.base.Src)
	if err != nil {
		return err
	}
	named, err := v1.NewHash(v.from.BaseDigest)
	if err == nil && slices.Contains(digests, named) {
		return nil
	}
	v.out.skip("label %s: %q is not the digest of %v as it is here", keyBaseDigest, v.from.BaseDigest, v.base.Src.Ref)
	return nil
}

// manifest compares the manifests.
func (v *comparison) manifest(ctx context.Context, config []byte) error {
	if !hasManifest(v.after.Src) {
		v.out.skip("manifest: %v has none", v.after.Src.Ref)
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
		v.out.skip("manifest: %v has none: what it says of the base's layers", v.base.Src.Ref)
	}
	if v.derived() {
		if base, err = v.derivedManifest(base, &got, config); err != nil {
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
	v.out.twice("manifest", raw)
	v.out.object("manifest", want.rest, got.rest)
	if len(want.layers) != len(got.layers) {
		v.out.problem("manifest: got %d layers, want %d", len(got.layers), len(want.layers))
		return nil
	}
	for n := range want.layers {
		v.out.object(fmt.Sprintf("manifest: layer %d", n), want.layers[n], got.layers[n])
	}
	return nil
}

// derivedManifest is what a rebuild makes of the base's manifest, with the added layer in the form of
// the source, compressed in whatever way.
func (v *comparison) derivedManifest(base []byte, got *manifestText, config []byte) ([]byte, error) {
	var added v1.Descriptor
	if n := len(got.layers); n > 0 {
		if err := decode(got.layers[n-1], &added); err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
	}
	manifest, err := v.base.Src.Image.MediaType()
	if err != nil {
		return nil, err
	}
	return editManifest(base, config, naming{!got.docker, v.from.made, manifest},
		&contents.AddedLayer{PackedDigest: added.Digest, PackedSize: added.Size}, v.from)
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

// reread reads those layers of the base, in the source's form, that are not the base's own
// blobs: they were not read so far, as the config says that they hold the same. How they are
// compressed is not a difference then.
func (v *comparison) reread(ctx context.Context, want, got *manifestText) error {
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
		ls, err := blob.OpenLayer(ctx, l, v.o.Media.Progress)
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

// index compares the indexes that the images were chosen from: the base's with the patched images in
// it, which have been compared, and the source's.
func (v *Verified) index(base, after *media.Source) error {
	switch {
	case base.Image == nil || after.Image == nil || base.Index == nil && after.Index == nil:
		return nil
	case after.Index == nil:
		v.skip("images of other platforms: %v has none", after.Ref)
		return nil
	case base.Index == nil && hasManifest(base):
		v.problem("index: the base is a single image")
		return nil
	case base.Index == nil:
		v.skip("images of other platforms: %v has none", base.Ref)
		return nil
	}
	want := base.Index
	bases, afters := append([]*media.Source{base}, base.Levels...), append([]*media.Source{after}, after.Levels...)
	for i, b := range bases {
		if i < len(afters) && b.Entry.Digest != afters[i].Entry.Digest {
			want = media.ReplaceInIndex(want, b.Entry, afters[i].Image)
		}
	}
	return v.indexes("index", want, after.Index, blob.MaxNesting)
}

// indexes compares two indexes, and those in them.
func (v *Verified) indexes(where string, want, got v1.ImageIndex, depth int) error {
	wantRest, wantEntries, err := indexText(want)
	if err != nil {
		return err
	}
	gotRest, gotEntries, err := indexText(got)
	if err != nil {
		return err
	}
	v.object(where, wantRest, gotRest)
	if len(wantEntries) != len(gotEntries) {
		v.problem("%s: got %d entries, want %d", where, len(gotEntries), len(wantEntries))
		return nil
	}
	for n, w := range wantEntries {
		var a, b v1.Descriptor
		if err := decode(w, &a); err != nil {
			return err
		}
		if err := decode(gotEntries[n], &b); err != nil {
			return err
		}
		if where := fmt.Sprintf("%s: entry %d", where, n); a.MediaType.IsIndex() && b.MediaType.IsIndex() && a.Digest != b.Digest && depth > 0 {
			inWant, err := want.ImageIndex(a.Digest)
			if err != nil {
				return err
			}
			inGot, err := got.ImageIndex(b.Digest)
			if err != nil {
				return err
			}
			if err := v.indexes(where, inWant, inGot, depth-1); err != nil {
				return err
			}
		}
		v.object(fmt.Sprintf("%s: entry %d", where, n), w, gotEntries[n])
	}
	return nil
}

// indexText takes an index apart.
func indexText(idx v1.ImageIndex) (rest jsonobject.Object, entries []jsonobject.Object, err error) {
	raw, err := idx.RawManifest()
	if err != nil {
		return nil, nil, err
	}
	if key := duplicateKey(gjson.ParseBytes(raw)); key != "" {
		return nil, nil, fmt.Errorf("index: %s: there twice", key)
	}
	if err := json.Unmarshal(raw, &rest); err != nil {
		return nil, nil, fmt.Errorf("index: %w", err)
	}
	if err := json.Unmarshal(rest["manifests"], &entries); err != nil {
		return nil, nil, fmt.Errorf("index: manifests: %w", err)
	}
	delete(rest, "manifests")
	for _, e := range entries {
		ociName(e)
	}
	return rest, entries, nil
}

func decode(o jsonobject.Object, v any) error {
	raw, err := jsonobject.Encode(o)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}
