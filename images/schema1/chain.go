// Images from before docker 1.10: each layer carries the whole config of an image of its own (docker-image-spec,
// v1.md, "Image JSON") and names its parent. Schema 1 manifests and the archives of old engines both hold such
// chains. The image made of one here is what docker makes of it (moby, image/v1/imagev1.go): the config of the
// topmost layer, with a history of one entry a layer.

// Package schema1 makes images of what Docker wrote before version 1.10: manifests of schema 1, and chains of layers in
// archives.
package schema1

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// Link is one layer of a chain.
type Link struct {
	imageJSON
	raw blob.Object // its image JSON
	// Of the layer's blob: its digest, which a manifest names, and what Measure found by reading it.
	Digest, DiffID v1.Hash
	Size           int64 // bytes
	Packed         blob.Compression
}

// emptyTar is the diff ID of a layer without files: 1024 zeros (moby, layer/empty.go).
const emptyTar = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"

// imageJSON is what vfix reads of an image JSON.
type imageJSON struct {
	ID              string `json:"id"`
	Parent          string `json:"parent"`
	Author          string `json:"author"`
	Comment         string `json:"comment"`
	Throwaway       bool   `json:"throwaway"`
	ContainerConfig struct {
		Cmd []string `json:"Cmd"`
	} `json:"container_config"`
}

// IsID reports whether a text is the ID of an old layer: 32 random bytes, no digest of anything.
func IsID(s string) bool {
	_, err := v1.NewHash("sha256:" + s)
	return err == nil
}

// UnmarshalJSON reads an image JSON.
func (l *Link) UnmarshalJSON(raw []byte) error {
	if err := cmp.Or(json.Unmarshal(raw, &l.imageJSON), json.Unmarshal(raw, &l.raw)); err != nil {
		return err
	}
	if !IsID(l.ID) || l.Parent != "" && !IsID(l.Parent) {
		return hinterr.Damaged("%.80q with the parent %.80q is not an image ID", l.ID, l.Parent)
	}
	return nil
}

// bare reports whether the layer adds no file: the engine said so (throwaway), or its tar stream is an empty one.
// Such a layer becomes an entry of the history alone.
func (l *Link) bare() bool { return l.Throwaway || l.DiffID.Hex == emptyTar }

// Measure reads a layer's blob to its end. r must end in an error if the blob does not have its digest.
func (l *Link) Measure(ctx context.Context, r io.Reader) error {
	sum := sha256.New()
	in := &blob.CountingReader{R: io.TeeReader(r, sum)}
	body, kind, err := blob.Decompress(ctx, in)
	if err != nil {
		return err
	}
	defer body.Close()
	l.DiffID, _, err = v1.SHA256(body)
	l.Digest, l.Size, l.Packed = blob.Sum(sum), in.N, kind
	return err
}

// LayerTypes are the media types of the layers that docker saved.
var LayerTypes = map[blob.Compression]types.MediaType{
	blob.PlainStream: types.DockerUncompressedLayer,
	blob.GzipStream:  types.DockerLayer,
	blob.ZstdStream:  types.OCILayerZStd,
}

// Assemble makes the config of the image of a chain, the base layer first, and returns the links that add files.
// measure calls Measure for a layer. Configs without a platform were made when there was one: linux/amd64.
func Assemble(chain []Link, measure func(*Link) error) (layers []Link, config []byte, err error) {
	ids, history := []string{}, []blob.Object{}
	for n := range chain {
		l := &chain[n]
		if !l.Throwaway {
			if err := measure(l); err != nil {
				return nil, nil, fmt.Errorf("layer %.12s: %w", l.ID, err)
			}
		}
		if !l.bare() {
			layers = append(layers, *l)
			ids = append(ids, l.DiffID.String())
		}
		history = append(history, l.history())
	}
	top := chain[len(chain)-1]
	c := maps.Clone(top.raw)
	// Members about the layer alone, and later additions.
	for _, key := range []string{"id", "parent", "Size", "parent_id", "layer_id", "throwaway", "layer"} {
		delete(c, key)
	}
	for key, value := range map[string]string{"architecture": "amd64", "os": "linux"} {
		var was string
		if json.Unmarshal(c[key], &was) != nil || was == "" {
			c.Set(map[string]any{key: value})
		}
	}
	c.Set(map[string]any{"rootfs": map[string]any{"type": "layers", "diff_ids": ids}, "history": history})
	config, err = blob.EncodeJSON(c)
	return layers, config, err
}

// history is the layer's entry in the history (image-spec config.md, "history").
func (l *Link) history() blob.Object {
	h := blob.Object{}
	if created := l.raw["created"]; len(created) > 0 && string(created) != "null" {
		h["created"] = created
	}
	texts := map[string]string{"author": l.Author, "comment": l.Comment, "created_by": strings.Join(l.ContainerConfig.Cmd, " ")}
	for key, text := range texts {
		if text != "" {
			h.Set(map[string]any{key: text})
		}
	}
	if l.bare() {
		h.Set(map[string]any{"empty_layer": true})
	}
	return h
}
