// Images from before docker 1.10: each layer carries the whole config of an image of its
// own (docker-image-spec, v1.md, "Image JSON"), and names its parent. Schema 1 manifests
// and the archives of old engines both hold such chains. The image made of one here is what
// docker makes of it (moby, image/v1/imagev1.go): the config of the topmost layer, with a
// history of one entry a layer.

package schema1

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/lazy"
)

// OldLayer is one link of such a chain.
type OldLayer struct {
	raw        []byte // its image JSON
	ID, Parent string
	json       oldJSON
	// Set where the layer has content, that is, not skip:
	Digest, DiffID v1.Hash
	size           int64 // bytes, of what digest is about
	Packed         blob.Compression
	empty          bool // a layer without a single file
}

// oldJSON is the part of an image JSON that goes into the history.
type oldJSON struct {
	ID              string          `json:"id"`
	Parent          string          `json:"parent"`
	Created         json.RawMessage `json:"created"`
	Author          string          `json:"author"`
	Comment         string          `json:"comment"`
	Throwaway       bool            `json:"throwaway"`
	ContainerConfig struct {
		Cmd stringOrList `json:"Cmd"`
	} `json:"container_config"`
}

// stringOrList is a command line: some old engines wrote one word without a list.
type stringOrList []string

func (s *stringOrList) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*s = []string{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(s))
}

// OldID matches the ID of an old layer: 32 random bytes, no digest of anything.
var OldID = lazy.Regexp(`^[0-9a-f]{64}$`)

// NewOldLayer reads an image JSON.
func NewOldLayer(raw []byte) (OldLayer, error) {
	l := OldLayer{raw: raw}
	if err := json.Unmarshal(raw, &l.json); err != nil {
		return l, hinterr.Damaged("image JSON: %v", err)
	}
	l.ID, l.Parent = l.json.ID, l.json.Parent
	if !OldID().MatchString(l.ID) {
		return l, hinterr.Damaged("image JSON: %.80q is not an image ID", l.ID)
	}
	if l.Parent != "" && !OldID().MatchString(l.Parent) {
		return l, hinterr.Damaged("image JSON of %.12s: the parent %.80q is not an image ID", l.ID, l.Parent)
	}
	return l, nil
}

// hasNone reports whether the layer adds no file: the engine said so (throwaway), or its
// tar stream is an empty one. Such a layer becomes an entry of the history alone.
func (l *OldLayer) hasNone() bool { return l.json.Throwaway || l.empty }

// Measure reads a layer's content once for its diff ID. r must end in an error if it
// does not have the digest.
func (l *OldLayer) Measure(ctx context.Context, r io.Reader) error {
	in := &blob.CountingReader{R: blob.Reading{Ctx: ctx, Reader: r, T: nil}}
	body, kind, err := blob.Decompress(ctx, in)
	if err != nil {
		return err
	}
	defer body.Close()
	zeros := &zeroWatch{}
	id, _, err := v1.SHA256(io.TeeReader(body, zeros))
	if err != nil {
		return err
	}
	// A decompressor may stop at the end of its last frame, before padding.
	if _, err := blob.CopyTo(ctx, io.Discard, in, nil); err != nil {
		return err
	}
	l.DiffID, l.size, l.Packed = id, in.N, kind
	l.empty = !zeros.other // nothing but the end marker of a tar archive, however long
	return nil
}

// oldLayerType is the media type of an old layer, by its content.
var oldLayerType = map[blob.Compression]types.MediaType{
	blob.PlainStream: types.DockerUncompressedLayer,
	blob.GzipStream:  types.DockerLayer,
	blob.ZstdStream:  types.OCILayerZStd,
}

// OldImage makes an image of a chain, the base layer first, whose contents b has.
func OldImage(chain []OldLayer, architecture string, b blob.Blobs) (*blob.Image, error) {
	config, err := oldConfig(chain, architecture)
	if err != nil {
		return nil, err
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.DockerManifestSchema2, Layers: []v1.Descriptor{}}
	for _, l := range chain {
		if !l.hasNone() {
			m.Layers = append(m.Layers, v1.Descriptor{MediaType: oldLayerType[l.Packed], Size: l.size, Digest: l.Digest})
		}
	}
	return blob.MadeImage(m, config, b)
}

// oldConfig makes an image config of a chain: the members of the topmost image JSON, except
// those that are about the layer alone, and what was only added to it later. Configs
// that do not say their platform were made when there was one.
func oldConfig(chain []OldLayer, architecture string) ([]byte, error) {
	if len(chain) == 0 {
		return nil, hinterr.Damaged("no layers, and so no config")
	}
	top := chain[len(chain)-1]
	var c jsonobject.Object
	if err := json.Unmarshal(top.raw, &c); err != nil {
		return nil, hinterr.Damaged("image JSON of %.12s: %v", top.ID, err)
	}
	for _, key := range []string{"id", "parent", "Size", "parent_id", "layer_id", "throwaway", "layer"} {
		delete(c, key)
	}
	for _, key := range []string{"config", "container_config"} {
		if err := listCommands(c, key); err != nil {
			return nil, hinterr.Damaged("image JSON of %.12s: %v", top.ID, err)
		}
	}
	if architecture == "" {
		architecture = "amd64"
	}
	for key, value := range map[string]string{"architecture": architecture, "os": "linux"} {
		if was := string(c[key]); was == "" || was == `""` || was == "null" {
			c[key], _ = jsonobject.Encode(value)
		}
	}
	ids, history := []string{}, []jsonobject.Object{}
	for _, l := range chain {
		if !l.hasNone() {
			ids = append(ids, l.DiffID.String())
		}
		history = append(history, l.history())
	}
	c.Set(map[string]any{"rootfs": map[string]any{"type": "layers", "diff_ids": ids}, "history": history})
	return jsonobject.Encode(c)
}

// history is the layer's entry in the history (image-spec config.md, "history").
func (l *OldLayer) history() jsonobject.Object {
	h := jsonobject.Object{}
	if created := string(l.json.Created); created != "" && created != "null" {
		h["created"] = l.json.Created
	}
	for key, value := range map[string]string{
		"author": l.json.Author, "comment": l.json.Comment, "created_by": strings.Join(l.json.ContainerConfig.Cmd, " "),
	} {
		if value != "" {
			h[key], _ = jsonobject.Encode(value)
		}
	}
	if l.hasNone() {
		h["empty_layer"] = json.RawMessage("true")
	}
	return h
}
