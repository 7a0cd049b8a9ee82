// The texts of a derived image, its config, manifest and index, compared with those that vfix makes
// of the base's: with the names that the image itself says of its base and of vfix's version, which
// must be the same wherever it says them.

package images

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
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

// manifest compares the manifests: the source's with what a rebuild makes of the base's, the added layer compressed in
// whatever way.
func (v *comparison) manifest(config []byte) error {
	if !hasManifest(v.after.Src) {
		v.out.skip("manifest: %v has none", v.after.Src.Ref)
		return nil
	}
	raw, err := v.after.Src.Image.RawManifest()
	if err != nil {
		return err
	}
	var got struct {
		MediaType types.MediaType `json:"mediaType"`
		Layers    []v1.Descriptor `json:"layers"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return fmt.Errorf("%v: manifest: %w", v.after.Src.Ref, err)
	}
	want, err := v.baseManifest(got.Layers, config)
	if err == nil && v.derived() {
		added := &contents.AddedLayer{}
		if n := len(got.Layers); n > 0 {
			added.PackedDigest, added.PackedSize = got.Layers[n-1].Digest, got.Layers[n-1].Size
		}
		names := naming{oci: got.MediaType != types.DockerManifestSchema2, made: v.from.made}
		if names.manifest, err = v.base.Src.Image.MediaType(); err == nil {
			want, err = editManifest(want, config, names, added, v.from)
		}
	}
	if err != nil {
		return fmt.Errorf("%v: manifest: %w", v.base.Src.Ref, err)
	}
	return v.out.texts("manifest", want, raw)
}

// baseManifest is the base's manifest, with its layers compressed as in the source: all of those were read, and
// hold the same; of layers with the same content the first one was read. It names the source's config.
func (v *comparison) baseManifest(got []v1.Descriptor, config []byte) ([]byte, error) {
	n := len(v.base.T.Layers)
	bare := !hasManifest(v.base.Src)
	m := jsonobject.Object{}
	if bare {
		v.out.skip("manifest: %v has none: what it says of the base's layers", v.base.Src.Ref)
		m.Set(map[string]any{"schemaVersion": 2, "config": v1.Descriptor{MediaType: types.OCIConfigJSON}, "layers": slices.Repeat([]jsonobject.Object{{}}, n)})
	} else if raw, err := v.base.Src.Image.RawManifest(); err != nil {
		return nil, err
	} else if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	layers, err := v.after.Src.Image.Layers()
	if err != nil {
		return nil, err
	}
	if err := jsonobject.Edit(m, "layers", func(all *[]jsonobject.Object) error {
		first := map[v1.Hash]int{}
		for i, l := range (*all)[:min(n, len(*all), len(got), len(layers))] {
			id := v.base.T.Layers[i].DiffID
			if _, known := first[id]; !known {
				first[id] = i
			}
			is := got[first[id]]
			digest, _ := jsonobject.Encode(got[i].Digest)
			if !bare && (bytes.Equal(l["digest"], digest) || !media.AtHand(layers[i])) {
				continue
			}
			l.Set(map[string]any{"mediaType": is.MediaType, "digest": is.Digest, "size": is.Size})
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if err := nameConfig(m, config); err != nil {
		return nil, err
	}
	return jsonobject.Encode(m)
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
	index, err := base.Index, error(nil)
	bases, afters := append([]*media.Source{base}, base.Levels...), append([]*media.Source{after}, after.Levels...)
	for i, b := range bases {
		if i < len(afters) && b.Entry.Digest != afters[i].Entry.Digest {
			if index, err = media.ReplaceInIndex(index, b.Entry, afters[i].Image); err != nil {
				return err
			}
		}
	}
	want, err := index.RawManifest()
	got, gerr := after.Index.RawManifest()
	if err := cmp.Or(err, gerr); err != nil {
		return err
	}
	return v.texts("index", want, got)
}
