// The derived image: the base's config and manifest with one layer more. Both are edited as
// JSON, member by member, so that what vfix does not know of stays.

package images

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/repairs"
	"vfix.dev/vfix/rewriter"
)

// The keys under which labels and annotations name the base.
const (
	keyBaseName   = "dev.vfix.base.name"
	keyBaseDigest = "dev.vfix.base.digest"
	keyVersion    = "dev.vfix.version"
)

// derivation is what the derived image says of where it comes from.
type derivation struct {
	BaseName, BaseDigest, Version string
	calls                         bool // call sites are patched, or left to the fallback
	fallback                      bool // files of the fallback are in the layer
	Traced                        bool // vfix-trace is put before the entrypoint
	made                          bool // the base has no manifest of its own
	repaired                      []rewriter.Repair
}

// keys are all labels and annotations that vfix writes, with their values.
func (p derivation) keys() map[string]string {
	return map[string]string{keyBaseName: p.BaseName, keyBaseDigest: p.BaseDigest, keyVersion: p.Version}
}

// comment says in the history what was done.
func (p derivation) comment() string {
	var all []string
	if p.calls || len(p.repaired) == 0 {
		all = append(all, "calls to the vsyscall page rewritten to reach the vDSO")
	}
	if p.fallback {
		all = append(all, "fallback added")
	}
	for _, r := range p.repaired {
		all = append(all, repairs.Done(r))
	}
	return strings.Join(all, "; ")
}

// labels are those that have a value.
func (p derivation) labels() map[string]string {
	all := p.keys()
	for k, v := range all {
		if v == "" {
			delete(all, k)
		}
	}
	return all
}

// derivedImage is a base image with one layer more. It implements v1.Image. Layers of the
// base keep their bytes and digests. It is an OCI image whatever the base is, so that only
// the names of media types change; docker's names stay where oci is false, for an image in
// a docker manifest list, which registries may not let hold another kind.
type derivedImage struct {
	base     v1.Image
	oci      bool
	added    *contents.AddedLayer
	from     derivation
	config   []byte
	manifest func() ([]byte, error)
}

// derive makes the derived image. The base's manifest is not asked for until somebody
// wants the new one: for an image that comes uncompressed that means compressing it.
func derive(base v1.Image, oci bool, added *contents.AddedLayer, from derivation) (*derivedImage, error) {
	raw, err := base.RawConfigFile()
	if err != nil {
		return nil, err
	}
	layers, err := base.Layers()
	if err != nil {
		return nil, err
	}
	d := &derivedImage{base: base, oci: oci, added: added, from: from}
	if d.config, err = editConfig(raw, len(layers), added.PlainDigest, from); err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	d.manifest = sync.OnceValues(d.makeManifest)
	return d, nil
}

// editConfig adds a layer to an image config (image-spec config.md): its diff ID, one
// history entry with the base's own date, labels. Everything else is kept.
//
// The config must have a diff ID for each of the base's layers: what is added stands behind.
func editConfig(raw []byte, layers int, diffID v1.Hash, from derivation) ([]byte, error) {
	var c jsonobject.Object
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	entry := jsonobject.Object{}
	if created, ok := c["created"]; ok && string(created) != "null" {
		entry["created"] = created
	}
	entry["created_by"], _ = jsonobject.Encode("vfix " + from.Version + " rebuild")
	entry["comment"], _ = jsonobject.Encode(from.comment())
	if err := jsonobject.Edit(c, "history", func(h *[]jsonobject.Object) error {
		*h = append(fillHistory(*h, layers), entry)
		return nil
	}); err != nil {
		return nil, err
	}
	if err := jsonobject.Edit(c, "rootfs", func(r *jsonobject.Object) error {
		return jsonobject.Edit(*r, "diff_ids", func(ids *[]string) error {
			if len(*ids) != layers {
				return hinterr.Damaged("got %d of them, want %d, one for each layer", len(*ids), layers)
			}
			*ids = append(*ids, diffID.String())
			return nil
		})
	}); err != nil {
		return nil, err
	}
	if err := jsonobject.Edit(c, "config", func(o *jsonobject.Object) error {
		if *o == nil {
			*o = jsonobject.Object{}
		}
		if from.Traced {
			if err := addEntrypoint(*o); err != nil {
				return err
			}
		}
		return jsonobject.AddStrings(*o, "Labels", from.labels())
	}); err != nil {
		return nil, err
	}
	return jsonobject.Encode(c)
}

// fillHistory adds rows until there is one for each layer: docker counts them off against the
// layers, and would show what a rebuild adds as one of the base's.
func fillHistory(h []jsonobject.Object, layers int) []jsonobject.Object {
	for _, row := range h {
		if string(row["empty_layer"]) != "true" {
			layers--
		}
	}
	for range max(0, layers) {
		by, _ := jsonobject.Encode("unknown")
		h = append(h, jsonobject.Object{"created_by": by})
	}
	return h
}

// addEntrypoint puts vfix-trace before the entrypoint. Without one it becomes the
// entrypoint, and the command its arguments (image-spec config.md, Entrypoint and Cmd).
func addEntrypoint(config jsonobject.Object) error {
	return jsonobject.Edit(config, "Entrypoint", func(e *[]string) error {
		*e = append([]string{fallback.TracePath}, *e...)
		return nil
	})
}

// typeName is what the derived image calls the media type t of its base. An uncompressed
// layer that no manifest names keeps docker's name: by it a writer knows what to compress.
func (d *derivedImage) typeName(t types.MediaType) types.MediaType {
	if !d.oci || d.from.made && t == types.DockerUncompressedLayer {
		return t
	}
	return media.OCIName(t)
}

// retype gives a descriptor its media type in the derived image.
func (d *derivedImage) retype(desc jsonobject.Object) error {
	return jsonobject.Edit(desc, "mediaType", func(t *types.MediaType) error {
		*t = d.typeName(*t)
		return nil
	})
}

// makeManifest edits the base's manifest (image-spec manifest.md).
func (d *derivedImage) makeManifest() ([]byte, error) {
	raw, err := d.base.RawManifest()
	if err != nil {
		return nil, err
	}
	var m jsonobject.Object
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	mediaType, err := d.MediaType()
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, hinterr.Damaged("manifest: null")
	}
	m["mediaType"], _ = jsonobject.Encode(mediaType)
	configName, err := partial.ConfigName(d)
	if err != nil {
		return nil, err
	}
	if err := jsonobject.Edit(m, "config", func(c *jsonobject.Object) error {
		if *c == nil {
			return hinterr.Damaged("missing")
		}
		delete(*c, "data")
		(*c)["digest"], _ = jsonobject.Encode(configName.String())
		(*c)["size"], _ = jsonobject.Encode(len(d.config))
		return d.retype(*c)
	}); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if err := jsonobject.Edit(m, "layers", func(l *[]jsonobject.Object) error {
		for _, desc := range *l {
			if err := d.retype(desc); err != nil {
				return err
			}
		}
		added := jsonobject.Object{}
		added["mediaType"], _ = jsonobject.Encode(d.addedType())
		added["digest"], _ = jsonobject.Encode(d.added.PackedDigest.String())
		added["size"], _ = jsonobject.Encode(d.added.PackedSize)
		*l = append(*l, added)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if d.oci { // docker's manifests have no annotations
		if err := jsonobject.AddStrings(m, "annotations", d.from.labels()); err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
	}
	return jsonobject.Encode(m)
}

func (d *derivedImage) RawConfigFile() ([]byte, error)      { return bytes.Clone(d.config), nil }
func (d *derivedImage) ConfigFile() (*v1.ConfigFile, error) { return partial.ConfigFile(d) }
func (d *derivedImage) ConfigName() (v1.Hash, error)        { return partial.ConfigName(d) }
func (d *derivedImage) ConfigLayer() (v1.Layer, error) {
	return partial.ConfigLayer(struct{ partial.WithRawConfigFile }{d})
}
func (d *derivedImage) RawManifest() ([]byte, error)    { return d.manifest() }
func (d *derivedImage) Manifest() (*v1.Manifest, error) { return partial.Manifest(d) }
func (d *derivedImage) Size() (int64, error)            { return partial.Size(d) }
func (d *derivedImage) Digest() (v1.Hash, error)        { return partial.Digest(d) }

func (d *derivedImage) MediaType() (types.MediaType, error) {
	t, err := d.base.MediaType()
	return d.typeName(t), err
}

// addedType is the media type of the added layer.
func (d *derivedImage) addedType() types.MediaType {
	if d.oci {
		return types.OCILayer
	}
	return types.DockerLayer
}

// layer is a layer of the base as the derived image shows it.
func (d *derivedImage) layer(l v1.Layer) v1.Layer {
	return retypedLayer{l, d}
}

// Layers are the base's and the added one.
func (d *derivedImage) Layers() ([]v1.Layer, error) {
	layers, err := d.base.Layers()
	if err != nil {
		return nil, err
	}
	all := make([]v1.Layer, 0, len(layers)+1)
	for _, l := range layers {
		all = append(all, d.layer(l))
	}
	return append(all, d.layer(d.added)), nil
}

func (d *derivedImage) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	if h == d.added.PackedDigest {
		return d.layer(d.added), nil
	}
	if name, err := d.ConfigName(); err == nil && h == name {
		return d.ConfigLayer()
	}
	l, err := d.base.LayerByDigest(h)
	if err != nil {
		return nil, err
	}
	return d.layer(l), nil
}

func (d *derivedImage) LayerByDiffID(h v1.Hash) (v1.Layer, error) {
	if h == d.added.PlainDigest {
		return d.layer(d.added), nil
	}
	l, err := d.base.LayerByDiffID(h)
	if err != nil {
		return nil, err
	}
	return d.layer(l), nil
}

// Base is the image that this one was made of.
func (d *derivedImage) Base() v1.Image { return d.base }

// Added is the layer more that it has.
func (d *derivedImage) Added() *contents.AddedLayer { return d.added }

// Traced reports whether it runs under vfix-trace, other than its base.
func (d *derivedImage) Traced() bool { return d.from.Traced }

// retypedLayer is a layer under the media type that the derived image gives it.
type retypedLayer struct {
	v1.Layer
	in *derivedImage
}

func (l retypedLayer) MediaType() (types.MediaType, error) {
	if l.Layer == v1.Layer(l.in.added) {
		return l.in.addedType(), nil
	}
	t, err := l.Layer.MediaType()
	return l.in.typeName(t), err
}

// Unwrap gives the base's layer.
func (l retypedLayer) Unwrap() v1.Layer { return l.Layer }

// Plain says what IsPlain says of the base's layer.
func (l retypedLayer) Plain() bool { return blob.IsPlain(l.Layer) }

var (
	_ v1.Image = (*derivedImage)(nil)
	_ v1.Layer = (*contents.AddedLayer)(nil)
)
