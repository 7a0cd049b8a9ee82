// The derived image: the base's config and manifest with one layer more. Both are edited as
// JSON, member by member, so that members unknown to vfix stay.

package images

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/find"
)

// The keys of labels and annotations.
const (
	keyBaseName   = "dev.vfix.base.name"
	keyBaseDigest = "dev.vfix.base.digest"
	keyVersion    = "dev.vfix.version"
	// keyOptions has the options of the rebuild that the result depends on: see optionsText.
	keyOptions = "dev.vfix.options"
	// What a rebuild left: how many call sites, and what could not be examined. A later run over a list reports it.
	keyLeft       = "dev.vfix.left"
	keyIncomplete = "dev.vfix.incomplete"
)

// origin is what the derived image says about its base and about the rebuild.
type origin struct {
	baseName, baseDigest, version, options string
}

// originOf is the origin of what is derived from a source. Its digest is that of the platform's own manifest, or of the
// config (the image ID) where a daemon or docker archive has no manifest.
func originOf(src *source.Source, o RebuildOptions) (origin, error) {
	from := origin{source.BaseName(src.Ref), src.Digest, o.Version, optionsText(o)}
	if src.Schema1 {
		return from, nil
	}
	digest := src.Image.Digest
	if !src.Ref.HasManifests() {
		digest = src.Image.ConfigName
	}
	h, err := digest()
	from.baseDigest = h.String()
	return from, err
}

// optionsText is the value of the label for a rebuild's options: words of the form NAME=VALUE.
func optionsText(o RebuildOptions) string {
	words := []string{"fallback=" + cmp.Or(string(o.Fallback), string(fallback.FallbackNever))}
	for _, f := range o.Rewriter.Fixes {
		words = append(words, "fix="+string(f))
	}
	return strings.Join(words, " ")
}

// readOptions sets the options that a label has; without a label, the defaults.
func readOptions(text string, o *RebuildOptions) error {
	if text == "" && o.Shim.Present() {
		o.Fallback = fallback.FallbackAuto
	}
	for _, word := range strings.Fields(text) {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "fallback":
			o.Fallback = fallback.Mode(value)
		case "fix":
			o.Rewriter.Fixes = append(o.Rewriter.Fixes, find.Fix(value))
		default:
			return hinterr.Errorf(hinterr.ErrUnsupported, "label %s: unknown option %q: made by a newer vfix", keyOptions, word)
		}
	}
	return nil
}

// labels are the labels and annotations that vfix writes; an empty one is not written.
func (p origin) labels() map[string]string {
	return map[string]string{keyBaseName: p.baseName, keyBaseDigest: p.baseDigest, keyVersion: p.version, keyOptions: p.options}
}

// labelsOf are the labels in an image config; nil for a damaged one.
func labelsOf(config []byte) map[string]string {
	var c struct {
		Config struct{ Labels map[string]string }
	}
	json.Unmarshal(config, &c)
	return c.Config.Labels
}

// newDerivedImage makes the derived image: the base with one layer more. Layers of the base keep their bytes and digests.
// It is an OCI image whatever the base is, so that only the names of media
// types change; docker's names stay in a docker manifest list, which registries may not let hold another kind.
func newDerivedImage(src *source.Source, added *blob.PackedLayer, from origin, c *changes) (v1.Image, error) {
	base := src.Image
	raw, err := base.RawConfigFile()
	layers, lerr := base.Layers()
	manifest, merr := base.MediaType()
	if err := cmp.Or(err, lerr, merr); err != nil {
		return nil, err
	}
	rename := mediaTypes(src)
	config, err := editConfig(raw, len(layers), added.PlainDigest, from, c)
	if err != nil {
		return nil, fmt.Errorf("image config: %w", err)
	}
	text, err := base.RawManifest()
	if err == nil {
		text, err = editManifest(text, config, manifest, rename, added, from)
	}
	if err != nil {
		return nil, err
	}
	return source.EditedImage(text, config, append(layers, added))
}

// editConfig adds a layer to an image config (image-spec config.md): its diff ID, one
// history entry with the base's own date, labels. Everything else is kept.
//
// The config must have a diff ID for each of the base's layers: the added ones follow.
func editConfig(raw []byte, layers int, diffID v1.Hash, from origin, made *changes) ([]byte, error) {
	var c blob.Object
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	entry := blob.Object{}
	if created, ok := c["created"]; ok && string(created) != "null" {
		entry["created"] = created
	}
	entry.Set(map[string]any{"created_by": "vfix " + from.version + " rebuild", "comment": made.done})
	err := cmp.Or(
		blob.Edit(c, "history", func(h *[]blob.Object) error {
			*h = append(fillHistory(*h, layers), entry)
			return nil
		}),
		blob.Edit(c, "rootfs.diff_ids", func(ids *[]string) error {
			if len(*ids) != layers {
				return hinterr.Damaged("got %d of them, want %d, one for each layer", len(*ids), layers)
			}
			*ids = append(*ids, diffID.String())
			return nil
		}),
		blob.Edit(c, "config", func(o *blob.Object) error {
			if *o == nil {
				*o = blob.Object{}
			}
			err := cmp.Or(blob.AddStrings(*o, "Labels", from.labels()), blob.AddStrings(*o, "Labels", made.left))
			if err != nil || !made.traced {
				return err
			}
			// Without an entrypoint the command becomes its arguments (image-spec config.md, Entrypoint and Cmd).
			return blob.Edit(*o, "Entrypoint", func(e *[]string) error {
				*e = append([]string{addedfiles.TracePath}, *e...)
				return nil
			})
		}))
	if err != nil {
		return nil, err
	}
	return blob.EncodeJSON(c)
}

// fillHistory adds rows until there is one for each layer: docker counts them off against the
// layers, and would show what a rebuild adds as one of the base's.
func fillHistory(h []blob.Object, layers int) []blob.Object {
	for _, row := range h {
		if string(row["empty_layer"]) != "true" {
			layers--
		}
	}
	for range max(0, layers) {
		h = append(h, blob.Object{"created_by": json.RawMessage(`"unknown"`)})
	}
	return h
}

// mediaTypes returns what the derived image calls a media type of its base: as OCI does, or as docker does in a docker
// manifest list, which has others of docker's kind. An uncompressed layer that no manifest names keeps docker's name: by
// it a writer knows what to compress.
func mediaTypes(src *source.Source) func(types.MediaType) types.MediaType {
	named, inList := !src.Schema1 && src.Ref.HasManifests(), false
	if src.Index != nil {
		t, _ := src.Index.MediaType()
		inList = t == types.DockerManifestList
	}
	return func(t types.MediaType) types.MediaType {
		if inList || !named && t == types.DockerUncompressedLayer {
			return t
		}
		return source.OCIName(t)
	}
}

// editManifest adds a layer to a manifest (image-spec manifest.md) of a media type, and names the new config.
func editManifest(raw, config []byte, of types.MediaType, rename func(types.MediaType) types.MediaType, added *blob.PackedLayer, from origin) ([]byte, error) {
	var m blob.Object
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if m == nil {
		return nil, hinterr.Damaged("manifest: null")
	}
	digest, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	retype := func(o blob.Object) error {
		return blob.Edit(o, "mediaType", func(t *types.MediaType) error {
			*t = rename(*t)
			return nil
		})
	}
	m.Set(map[string]any{"mediaType": rename(of)}) // OCI does not demand it of the base's
	err = cmp.Or(
		blob.Edit(m, "config", func(c *blob.Object) error {
			if *c == nil {
				return hinterr.Damaged("missing")
			}
			delete(*c, "data")
			c.Set(map[string]any{"digest": digest, "size": size})
			return retype(*c)
		}),
		blob.Edit(m, "layers", func(l *[]blob.Object) error {
			for _, desc := range *l {
				if err := retype(desc); err != nil {
					return err
				}
			}
			desc := blob.Object{}
			desc.Set(map[string]any{"mediaType": rename(types.DockerLayer), "digest": added.PackedDigest, "size": added.PackedSize})
			*l = append(*l, desc)
			return nil
		}))
	if err == nil && rename(types.DockerManifestSchema2) == types.OCIManifestSchema1 { // docker's manifests have no annotations
		err = blob.AddStrings(m, "annotations", from.labels())
	}
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return blob.EncodeJSON(m)
}
