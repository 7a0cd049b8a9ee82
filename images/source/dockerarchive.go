// Reading the archives of docker save (docker-image-spec, v1.2.md, "Combined Image JSON + Filesystem Changeset
// Format"), and those of docker save before docker 1.10 (v1.md), which have a directory for each layer:
//
//	repositories          {"redis": {"2.8.22": ID of the topmost layer}}; missing if the image was saved by its ID
//	ID/json               the image JSON, with the parent's ID
//	ID/layer.tar          what the layer adds

package source

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
)

const (
	dockerManifest = "manifest.json"
	repositories   = "repositories"
	v1JSON         = "/json"
	v1Layer        = "/layer.tar"
)

// archived is one image of an archive, as manifest.json lists it. In the old form its Config is the ID of the topmost
// layer.
type archived = tarball.Descriptor

// dockerImage opens the image of a docker archive that ref's tag names, or the only one.
func dockerImage(ctx context.Context, t *archive, ref Ref, o Options) (*Source, error) {
	var all []archived
	var old map[string]schema1.Link
	var err error
	if t.has(dockerManifest) {
		_, err = files(t.file).json(dockerManifest, blob.MaxManifest, &all)
	} else if old, err = v1Links(t); err == nil {
		all, err = v1Images(t, old)
	}
	if err != nil {
		return nil, err
	}
	var entries []v1.Descriptor
	byID := map[v1.Hash]archived{}
	for _, a := range all {
		id := v1.Hash{Algorithm: "sha256", Hex: idOf(a.Config)}
		byID[id] = a
		if len(a.RepoTags) == 0 {
			a.RepoTags = []string{""}
		}
		for _, tag := range a.RepoTags {
			entries = append(entries, v1.Descriptor{Digest: id, Annotations: map[string]string{refNameKey: tag}})
		}
	}
	entry, err := pick(entries, ref.Tag, o)
	if err != nil {
		return nil, err
	}
	a := byID[entry.Digest]
	var img *image
	if old == nil {
		img, err = savedImage(ctx, t, a)
	} else {
		img, err = v1Image(ctx, t, old, a.Config, o)
	}
	if err != nil {
		return nil, err
	}
	ref.Tag = tagOf(entry)
	src := &Source{Ref: ref, Digest: img.manifest.Config.Digest.String()}
	return src, src.take(img, o)
}

// idOf is the ID in the names that docker, skopeo and go-containerregistry give a config: HEX.json, sha256:HEX,
// blobs/sha256/HEX.
func idOf(config string) string {
	return strings.TrimPrefix(strings.TrimSuffix(path.Base(config), ".json"), "sha256:")
}

// savedImage makes the image of an entry of an archive.
//
// Such an archive has no manifest; the one made here describes the archive as it is: a layer that was saved
// uncompressed has its diff ID as its digest, so that it need not be compressed to name it. The config is unchanged,
// and so is the image ID.
func savedImage(ctx context.Context, t *archive, a archived) (*image, error) {
	var cf v1.ConfigFile
	config, err := files(t.file).json(a.Config, blob.MaxConfig, &cf)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	id := idOf(a.Config)
	if got := describe(types.DockerConfigJSON, config).Digest; schema1.IsID(id) && got.Hex != id {
		return nil, hinterr.Damaged("config %s: got digest %v", a.Config, got)
	}
	if got, want := len(cf.RootFS.DiffIDs), len(a.Layers); got != want {
		return nil, hinterr.Damaged("config %s: got %d diff IDs, want %d, one for each layer in %s", a.Config, got, want, dockerManifest)
	}
	layers := []v1.Descriptor{}
	names := map[v1.Hash]string{}
	for n, name := range a.Layers {
		d, err := archivedLayer(ctx, t, name, cf.RootFS.DiffIDs[n])
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", n, err)
		}
		layers = append(layers, d)
		names[d.Digest] = name
	}
	return madeImage(types.DockerManifestSchema2, layers, config, fileStore{t.file, func(h v1.Hash) string { return names[h] }})
}

// archivedLayer describes one layer. One that is compressed must be read to be named, unless it is named by its digest.
func archivedLayer(ctx context.Context, t *archive, name string, diffID v1.Hash) (d v1.Descriptor, err error) {
	content, err := t.section(name)
	if err != nil {
		return d, hinterr.With(err, incomplete)
	}
	kind, err := blob.CompressionOf(content)
	if err != nil {
		return d, err
	}
	d = v1.Descriptor{MediaType: schema1.LayerTypes[kind], Size: content.Size(), Digest: diffID}
	switch claim := path.Base(name); {
	case kind == blob.PlainStream:
	case schema1.IsID(claim): // blobs/sha256/HEX
		d.Digest.Hex = claim
	default:
		d.Digest, _, err = v1.SHA256(blob.Reading{Ctx: ctx, Reader: content})
		return d, err
	}
	return d, nil
}

// v1Links are the layers of an archive by their IDs.
func v1Links(t *archive) (map[string]schema1.Link, error) {
	all := map[string]schema1.Link{}
	for name := range t.entries {
		id, ok := strings.CutSuffix(name, v1JSON)
		if !ok || !schema1.IsID(id) || !t.has(id+v1Layer) {
			continue
		}
		var l schema1.Link
		if _, err := files(t.file).json(name, blob.MaxConfig, &l); err != nil {
			return nil, err
		}
		all[l.ID] = l
	}
	return all, nil
}

// v1Images lists the images that the file "repositories" names, without it those that are not the parent of another;
// each by the ID of its topmost layer.
func v1Images(t *archive, links map[string]schema1.Link) (all []archived, err error) {
	tags := map[string][]string{}
	if t.has(repositories) {
		var repos map[string]map[string]string
		if _, err := files(t.file).json(repositories, blob.MaxManifest, &repos); err != nil {
			return nil, err
		}
		for name, of := range repos {
			for tag, id := range of {
				tags[id] = append(tags[id], name+":"+tag)
			}
		}
	}
	if len(tags) == 0 {
		for id := range links {
			tags[id] = nil
		}
		for _, l := range links {
			delete(tags, l.Parent)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tags)) {
		slices.Sort(tags[id])
		all = append(all, archived{Config: id, RepoTags: tags[id]})
	}
	return all, nil
}

// v1Image makes the image of a layer and those below it.
func v1Image(ctx context.Context, t *archive, links map[string]schema1.Link, top string, o Options) (*image, error) {
	var chain []schema1.Link
	for id, more := top, true; more; more = id != "" {
		l, ok := links[id]
		if !ok {
			return nil, hinterr.Damaged("no layer %.80q, or it is above itself", id)
		}
		delete(links, id)
		chain = append(chain, l)
		id = l.Parent
	}
	slices.Reverse(chain)
	from := fileStore{t.file, func(h v1.Hash) string {
		n := slices.IndexFunc(chain, func(l schema1.Link) bool { return l.Digest == h })
		return chain[n].ID + v1Layer
	}}
	return chainImage(ctx, chain, from, o, func(l *schema1.Link) (io.ReadCloser, error) { return t.file(l.ID + v1Layer) })
}

// chainImage makes the image of a chain of old layers, each of which is read once, for its diff ID and size.
func chainImage(ctx context.Context, chain []schema1.Link, from store, o Options, open func(*schema1.Link) (io.ReadCloser, error)) (*image, error) {
	adding, config, err := schema1.Assemble(chain, func(l *schema1.Link) error {
		rc, err := open(l)
		if err != nil {
			return err
		}
		defer rc.Close()
		task := o.Progress.Start("read", l.ID[:12], -1)
		defer task.Done()
		return l.Measure(ctx, blob.Reading{Ctx: ctx, Reader: rc, T: task})
	})
	if err != nil {
		return nil, err
	}
	layers := []v1.Descriptor{}
	for _, l := range adding {
		layers = append(layers, v1.Descriptor{MediaType: schema1.LayerTypes[l.Packed], Size: l.Size, Digest: l.Digest})
	}
	return madeImage(types.DockerManifestSchema2, layers, config, from)
}
