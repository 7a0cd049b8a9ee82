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
	"regexp"
	"slices"
	"strings"
	"sync"

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
	// maxChain is how many layers an old image may have. Engines refused the 128th (moby, layer/layer_store.go,
	// maxLayerDepth); empty ones were also layers there.
	maxChain = 1024
)

// archived is one image of an archive, as manifest.json lists it. In the old form its Config is the ID of the topmost
// layer.
type archived = tarball.Descriptor

// dockerImage opens the image of a docker archive that ref's tag names, or the only one.
//
// Such an archive has no manifest; the one made here describes the archive as it is: a layer that was saved
// uncompressed has its diff ID as its digest, so that it need not be compressed to name it. The config is unchanged,
// and so is the image ID.
func dockerImage(ctx context.Context, t *archive, ref Ref, o Options) (*Source, error) {
	var all []archived
	var err error
	imageOf := savedImage
	if t.has(dockerManifest) {
		_, err = files(t.file).json(dockerManifest, blob.MaxManifest, &all)
	} else {
		imageOf = v1Image
		all, err = v1Images(t)
	}
	if err != nil {
		return nil, err
	}
	var list []named
	for n, a := range all {
		id := strings.TrimPrefix(strings.TrimSuffix(path.Base(a.Config), ".json"), "sha256:")
		list = append(list, named{n, "sha256:" + id, a.RepoTags})
	}
	fit := matching(list, ref.Tag)
	if len(fit) != 1 {
		return nil, notOne(list, ref.Tag)
	}
	img, err := imageOf(ctx, t, all[fit[0].at], o)
	if err != nil {
		return nil, err
	}
	if ref.Tag = ""; len(fit[0].names) > 0 {
		ref.Tag = fit[0].names[0]
	}
	src := &Source{Ref: ref, Digest: img.manifest.Config.Digest.String()}
	return src, src.take(img, o)
}

// hexName finds the digest in the names that docker, skopeo and go-containerregistry give the entries of an archive:
// HEX.json, HEX.tar, HEX.tar.gz, sha256:HEX, blobs/sha256/HEX. In HEX/layer.tar, docker's own, HEX is not a digest.
var hexName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:sha256:)?([0-9a-f]{64})(?:\.json|\.tar|\.tar\.gz|\.tar\.zst)?$`)
})

func claimedDigest(name string) (v1.Hash, bool) {
	m := hexName().FindStringSubmatch(path.Base(name))
	if m == nil {
		return v1.Hash{}, false
	}
	return v1.Hash{Algorithm: "sha256", Hex: m[1]}, true
}

// savedImage makes the manifest of an archived image.
func savedImage(ctx context.Context, t *archive, a archived, _ Options) (*image, error) {
	var cf v1.ConfigFile
	config, err := files(t.file).json(a.Config, blob.MaxConfig, &cf)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	id := describe(types.DockerConfigJSON, config).Digest
	if claim, ok := claimedDigest(a.Config); ok && claim != id {
		return nil, hinterr.Damaged("config %s: got digest %v", a.Config, id)
	}
	if got, want := len(cf.RootFS.DiffIDs), len(a.Layers); got != want {
		return nil, hinterr.Damaged("config %v: got %d diff IDs, want %d, one for each layer in %s", id, got, want, dockerManifest)
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.DockerManifestSchema2, Layers: []v1.Descriptor{}}
	names := map[v1.Hash]string{}
	for n, name := range a.Layers {
		d, err := archivedLayer(ctx, t, name, cf.RootFS.DiffIDs[n])
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", n, err)
		}
		m.Layers = append(m.Layers, d)
		names[d.Digest] = name
	}
	return madeImage(m, config, entryStore(t, names))
}

// entryStore has blobs in entries of an archive, by the digests that they have, or claim to have.
func entryStore(t *archive, names map[v1.Hash]string) store {
	return fileStore{t.file, func(h v1.Hash) string { return names[h] }}
}

// archivedLayer describes one layer. One that is compressed and has no digest in its name must be read to be named.
func archivedLayer(ctx context.Context, t *archive, name string, diffID v1.Hash) (d v1.Descriptor, err error) {
	content, err := t.section(name)
	if err != nil {
		return d, err
	}
	head := make([]byte, blob.MagicLen)
	n, err := content.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return d, err
	}
	kind := blob.DetectCompression(head[:n])
	d.MediaType, d.Size = schema1.LayerTypes[kind], content.Size()
	claim, claimed := claimedDigest(name)
	switch {
	case kind == blob.PlainStream:
		d.Digest = diffID
	case claimed && claim != diffID:
		d.Digest = claim
	default:
		d.Digest, _, err = v1.SHA256(blob.Reading{Ctx: ctx, Reader: content})
		return d, err
	}
	return d, nil
}

// isV1Archive reports whether an archive has the old form only.
func isV1Archive(t *archive) bool {
	if t.has(dockerManifest) || t.has(layoutIndex) {
		return false
	}
	return t.has(repositories) || len(v1IDs(t)) > 0
}

// v1IDs are the layers of an archive, sorted.
func v1IDs(t *archive) []string {
	var ids []string
	for name := range t.entries {
		id, ok := strings.CutSuffix(name, v1JSON)
		if ok && schema1.IsID(id) && t.has(id+v1Layer) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// v1Images lists the images that the file "repositories" names, without it those that are not the parent of another;
// each by the ID of its topmost layer.
func v1Images(t *archive) (all []archived, err error) {
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
		parents := map[string]bool{}
		for _, id := range v1IDs(t) {
			l, err := v1Link(t, id)
			if err != nil {
				return nil, err
			}
			parents[l.Parent], tags[id] = true, nil
		}
		maps.DeleteFunc(tags, func(id string, _ []string) bool { return parents[id] })
	}
	for _, id := range slices.Sorted(maps.Keys(tags)) {
		slices.Sort(tags[id])
		all = append(all, archived{Config: id, RepoTags: tags[id]})
	}
	return all, nil
}

func v1Link(t *archive, id string) (l schema1.Link, err error) {
	if !schema1.IsID(id) {
		return l, hinterr.Damaged("%.80q is not a layer ID", id)
	}
	_, err = files(t.file).json(id+v1JSON, blob.MaxConfig, &l)
	if err == nil && l.ID != id {
		err = hinterr.Damaged("%s%s: got the ID %.12s", id, v1JSON, l.ID)
	}
	return l, err
}

// v1Image makes an image of a layer and those below it. Every layer is read once for its diff ID.
func v1Image(ctx context.Context, t *archive, a archived, o Options) (*image, error) {
	var chain []schema1.Link
	for id := a.Config; len(chain) == 0 || id != ""; {
		if len(chain) == maxChain {
			return nil, hinterr.Damaged("more than %d layers, or a cycle of them", maxChain)
		}
		l, err := v1Link(t, id)
		if err != nil {
			return nil, err
		}
		chain = append(chain, l)
		id = l.Parent
	}
	slices.Reverse(chain)
	names := map[v1.Hash]string{}
	m, config, err := schema1.Assemble(chain, "", func(l *schema1.Link) error {
		err := measureEntry(ctx, t, l, o)
		names[l.Digest] = l.ID + v1Layer
		return err
	})
	if err != nil {
		return nil, err
	}
	return madeImage(m, config, entryStore(t, names))
}

func measureEntry(ctx context.Context, t *archive, l *schema1.Link, o Options) error {
	content, err := t.section(l.ID + v1Layer)
	if err != nil {
		return err
	}
	task := o.Progress.Start("read", l.ID[:12], content.Size())
	defer task.Done()
	if l.Content, err = schema1.Measure(ctx, blob.Reading{Ctx: ctx, Reader: content, T: task}); err != nil {
		return err
	}
	if l.Digest = l.DiffID; l.Packed != blob.PlainStream {
		content.Seek(0, io.SeekStart)
		l.Digest, _, err = v1.SHA256(blob.Reading{Ctx: ctx, Reader: content})
	}
	return err
}
