package images

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The derived image: the base's config and manifest with one layer more. Both are edited as
// JSON, member by member, so that what vfix does not know of stays.

// The keys under which labels and annotations name the base.
const (
	keyBaseName   = "dev.vfix.base.name"
	keyBaseDigest = "dev.vfix.base.digest"
	keyVersion    = "dev.vfix.version"
)

// derivation is what the derived image says of where it comes from.
type derivation struct {
	baseName, baseDigest, version string
	fallback                      bool // files of the fallback are in the layer
	traced                        bool // vfix-trace is put before the entrypoint
}

// keys are all labels and annotations that vfix writes, with their values.
func (p derivation) keys() map[string]string {
	return map[string]string{keyBaseName: p.baseName, keyBaseDigest: p.baseDigest, keyVersion: p.version}
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
	added    *addedLayer
	from     derivation
	config   []byte
	manifest func() ([]byte, error)
}

// derive makes the derived image. The base's manifest is not asked for until somebody
// wants the new one: for an image that comes uncompressed that means compressing it.
func derive(base v1.Image, oci bool, added *addedLayer, from derivation) (*derivedImage, error) {
	raw, err := base.RawConfigFile()
	if err != nil {
		return nil, err
	}
	layers, err := base.Layers()
	if err != nil {
		return nil, err
	}
	d := &derivedImage{base: base, oci: oci, added: added, from: from}
	if d.config, err = editConfig(raw, len(layers), added.diffID, from); err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	d.manifest = sync.OnceValues(d.makeManifest)
	return d, nil
}

// members is a JSON object whose members keep their bytes.
type members map[string]json.RawMessage

// edit decodes member key into v, has f change v, and encodes it again.
func edit[T any](m members, key string, f func(*T) error) error {
	if m == nil {
		return damaged("%s: null where an object should be", key)
	}
	var v T
	if raw, ok := m[key]; ok {
		if err := json.Unmarshal(raw, &v); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if err := f(&v); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	raw, err := encode(v)
	m[key] = raw
	return err
}

// encode is json.Marshal without its escapes for HTML: what is kept shall stay as it is.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// editConfig adds a layer to an image config (image-spec config.md): its diff ID, one
// history entry with the base's own date, labels. Everything else is kept.
//
// The config must have a diff ID for each of the base's layers: what is added stands behind.
func editConfig(raw []byte, layers int, diffID v1.Hash, from derivation) ([]byte, error) {
	var c members
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	entry := members{}
	if created, ok := c["created"]; ok && string(created) != "null" {
		entry["created"] = created
	}
	entry["created_by"], _ = encode("vfix " + from.version + " rebuild")
	comment := "calls to the vsyscall page rewritten to reach the vDSO"
	if from.fallback {
		comment += "; fallback added"
	}
	entry["comment"], _ = encode(comment)
	if err := edit(c, "history", func(h *[]members) error {
		*h = append(*h, entry)
		return nil
	}); err != nil {
		return nil, err
	}
	if err := edit(c, "rootfs", func(r *members) error {
		return edit(*r, "diff_ids", func(ids *[]string) error {
			if len(*ids) != layers {
				return damaged("got %d of them, want %d, one for each layer", len(*ids), layers)
			}
			*ids = append(*ids, diffID.String())
			return nil
		})
	}); err != nil {
		return nil, err
	}
	if err := edit(c, "config", func(o *members) error {
		if *o == nil {
			*o = members{}
		}
		if from.traced {
			if err := addEntrypoint(*o); err != nil {
				return err
			}
		}
		return addStrings(*o, "Labels", from.labels())
	}); err != nil {
		return nil, err
	}
	return encode(c)
}

// addEntrypoint puts vfix-trace before the entrypoint. Without one it becomes the
// entrypoint, and the command its arguments (image-spec config.md, Entrypoint and Cmd).
func addEntrypoint(config members) error {
	return edit(config, "Entrypoint", func(e *[]string) error {
		*e = append([]string{TracePath}, *e...)
		return nil
	})
}

// addStrings adds to a member that is an object of strings.
func addStrings(m members, key string, more map[string]string) error {
	return edit(m, key, func(o *map[string]string) error {
		if *o == nil {
			*o = map[string]string{}
		}
		for k, v := range more {
			(*o)[k] = v
		}
		return nil
	})
}

// ociTypes is what docker's media types are called in OCI: the formats are the same
// (image-spec media-types.md, "Compatibility Matrix"). An uncompressed layer of docker's
// keeps its name: by it portable knows what to compress.
var ociTypes = map[types.MediaType]types.MediaType{
	types.DockerManifestSchema2: types.OCIManifestSchema1,
	types.DockerConfigJSON:      types.OCIConfigJSON,
	types.DockerLayer:           types.OCILayer,
	types.DockerForeignLayer:    types.OCIRestrictedLayer,
}

// typeName is what the derived image calls the media type t of its base.
func (d *derivedImage) typeName(t types.MediaType) types.MediaType {
	if oci, ok := ociTypes[t]; ok && d.oci {
		return oci
	}
	return t
}

// retype gives a descriptor its media type in the derived image.
func (d *derivedImage) retype(desc members) error {
	return edit(desc, "mediaType", func(t *types.MediaType) error {
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
	var m members
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	mediaType, err := d.MediaType()
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, damaged("manifest: null")
	}
	m["mediaType"], _ = encode(mediaType)
	configName, err := partial.ConfigName(d)
	if err != nil {
		return nil, err
	}
	if err := edit(m, "config", func(c *members) error {
		if *c == nil {
			return damaged("missing")
		}
		delete(*c, "data")
		(*c)["digest"], _ = encode(configName.String())
		(*c)["size"], _ = encode(len(d.config))
		return d.retype(*c)
	}); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if err := edit(m, "layers", func(l *[]members) error {
		for _, desc := range *l {
			if err := d.retype(desc); err != nil {
				return err
			}
		}
		added := members{}
		added["mediaType"], _ = encode(d.addedType())
		added["digest"], _ = encode(d.added.digest.String())
		added["size"], _ = encode(d.added.size)
		*l = append(*l, added)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if d.oci { // docker's manifests have no annotations
		if err := addStrings(m, "annotations", d.from.labels()); err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
	}
	return encode(m)
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
	if h == d.added.digest {
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
	if h == d.added.diffID {
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
func (d *derivedImage) Added() *addedLayer { return d.added }

// Traced reports whether it runs under vfix-trace, other than its base.
func (d *derivedImage) Traced() bool { return d.from.traced }

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

// Plain says what isPlain says of the base's layer.
func (l retypedLayer) Plain() bool { return isPlain(l.Layer) }

var (
	_ v1.Image = (*derivedImage)(nil)
	_ v1.Layer = (*addedLayer)(nil)
)
