// The archives of docker save before docker 1.10 (docker-image-spec, v1.md, "Combined Image
// JSON + Filesystem Changeset Format"): a file "repositories", and a directory for each layer
// of each image.
//
//	repositories          {"redis": {"2.8.22": ID of the topmost layer}}
//	ID/VERSION            "1.0"
//	ID/json               the image JSON, with the parent's ID
//	ID/layer.tar          what the layer adds
//
// Saved by its ID, an image has no name, and the archive no "repositories".

package media

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
)

const (
	v1JSON  = "/json"
	v1Layer = "/layer.tar"
)

// maxChain is how many layers an image of such an archive may have. Engines refused the
// 128th (moby, layer/layer_store.go, maxLayerDepth); empty ones were also layers there.
const maxChain = 1024

// IsV1Archive reports whether an archive has this form only, and not also a later one.
func IsV1Archive(t *tarFile) bool {
	if t.Has(ArchiveManifest) || t.Has(LayoutIndex) {
		return false
	}
	return t.Has(ArchiveV1) || len(v1IDs(t)) > 0
}

// v1IDs are the layers of an archive, sorted.
func v1IDs(t *tarFile) []string {
	var ids []string
	for name := range t.entries {
		id, ok := strings.CutSuffix(name, v1JSON)
		if ok && schema1.OldID().MatchString(id) && t.Has(id+v1Layer) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// v1Images lists the images that the file "repositories" names, or those that are not the parent of another; each by
// its topmost layer. A layer whose ID begins with tag is an image as well.
func v1Images(t *tarFile, tag string) (all []ArchiveImage, err error) {
	var repositories map[string]map[string]string
	if t.Has(ArchiveV1) {
		raw, err := readFile(t, ArchiveV1, blob.MaxManifest)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &repositories); err != nil {
			return nil, hinterr.Damaged("%s: %v", ArchiveV1, err)
		}
	}
	names := map[string][]string{}
	for name, of := range repositories {
		for tag, id := range of {
			names[id] = append(names[id], name+":"+tag)
		}
	}
	if len(names) == 0 {
		if names, err = v1Tops(t); err != nil {
			return nil, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		slices.Sort(names[id])
		all = append(all, ArchiveImage{Config: id, RepoTags: names[id], old: true})
	}
	for _, id := range v1IDs(t) {
		if _, listed := names[id]; !listed && isHeadOf(tag, id) {
			all = append(all, ArchiveImage{Config: id, old: true})
		}
	}
	slices.SortStableFunc(all, func(a, b ArchiveImage) int { return slices.Compare(a.RepoTags, b.RepoTags) })
	return all, nil
}

// isHeadOf reports whether a tag is the head of an ID, at least what docker shows of it.
func isHeadOf(tag, id string) bool {
	const shown = 12
	return len(tag) >= shown && strings.HasPrefix(id, strings.TrimPrefix(tag, "sha256:"))
}

// v1Image makes an image of a layer and those below. Every layer is read once for its diff ID.
func v1Image(ctx context.Context, t *tarFile, id string, o Options) (*blob.Image, error) {
	chain, err := v1Chain(t, id)
	if err != nil {
		return nil, err
	}
	names := map[v1.Hash]string{}
	for i := range chain {
		l := &chain[i]
		if err := measureEntry(ctx, t, l, o); err != nil {
			return nil, fmt.Errorf("layer %.12s: %w", l.ID, err)
		}
		names[l.Digest] = l.ID + v1Layer
	}
	return schema1.OldImage(chain, "", entryBlobs(t, names))
}

// measureEntry reads the content of one layer, which may be a link to that of another.
func measureEntry(ctx context.Context, t *tarFile, l *schema1.OldLayer, o Options) error {
	e, err := t.find(l.ID + v1Layer)
	if err != nil {
		return err
	}
	task := o.Progress.Start("read", l.ID[:12], e.size)
	defer task.Done()
	if err := l.Measure(ctx, blob.Reading{Ctx: ctx, Reader: t.section(e), T: task}); err != nil {
		return err
	}
	if l.Digest = l.DiffID; l.Packed != blob.PlainStream {
		l.Digest, _, err = v1.SHA256(blob.Reading{Ctx: ctx, Reader: t.section(e), T: nil})
	}
	return err
}

// v1Tops are the layers that are not the parent of another, without names.
func v1Tops(t *tarFile) (map[string][]string, error) {
	tops := map[string][]string{}
	ids := v1IDs(t)
	for _, id := range ids {
		tops[id] = nil
	}
	for _, id := range ids {
		l, err := v1LayerOf(t, id)
		if err != nil {
			return nil, err
		}
		delete(tops, l.Parent)
	}
	return tops, nil
}

func v1LayerOf(t *tarFile, id string) (schema1.OldLayer, error) {
	if !schema1.OldID().MatchString(id) {
		return schema1.OldLayer{}, hinterr.Damaged("%.80q is not a layer ID", id)
	}
	raw, err := readFile(t, id+v1JSON, blob.MaxConfig)
	if err != nil {
		return schema1.OldLayer{}, fmt.Errorf("layer %.12s: %w", id, err)
	}
	l, err := schema1.NewOldLayer(raw)
	if err == nil && l.ID != id {
		err = hinterr.Damaged("image JSON says the ID %.12s", l.ID)
	}
	if err != nil {
		return l, fmt.Errorf("layer %.12s: %w", id, err)
	}
	return l, nil
}

// v1Chain follows the parents of a layer and returns all, the base layer first.
func v1Chain(t *tarFile, id string) ([]schema1.OldLayer, error) {
	var chain []schema1.OldLayer
	for id != "" {
		if len(chain) == maxChain {
			return nil, hinterr.Damaged("more than %d layers, or a cycle of them", maxChain)
		}
		l, err := v1LayerOf(t, id)
		if err != nil {
			return nil, err
		}
		chain = append(chain, l)
		id = l.Parent
	}
	slices.Reverse(chain)
	return chain, nil
}
