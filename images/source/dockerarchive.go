// Reading the archives of docker save (docker-image-spec, v1.2.md, "Combined Image JSON + Filesystem Changeset
// Format"), and those of docker save before docker 1.10 (v1.md), which have a directory for each layer:
//
//	repositories          {"redis": {"2.8.22": ID of the topmost layer}}; missing if the image was saved by its ID
//	ID/json               the image JSON, with the parent's ID
//	ID/layer.tar          what the layer adds

package source

import (
	"bytes"
	"context"
	"encoding/json"
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
func dockerImage(ctx context.Context, in files, ref Ref, o Options) (*Source, error) {
	t := in.(*archive)
	all, listedIn, old, err := archivedImages(t)
	if err != nil {
		return nil, err
	}
	a, tag, err := findArchived(all, ref.Tag, listedIn)
	if err != nil {
		return nil, err
	}
	var img *image
	if old {
		img, err = v1Image(ctx, t, a.Config, o)
	} else {
		img, err = savedImage(ctx, t, a)
	}
	if err != nil {
		return nil, err
	}
	ref.Tag = tag
	src := &Source{Ref: ref, Digest: img.manifest.Config.Digest.String()}
	return src, src.take(img, o)
}

// archivedImages lists the images of an archive; old says that it has the form before docker 1.10.
func archivedImages(t *archive) (all []archived, listedIn string, old bool, err error) {
	if !t.has(dockerManifest) {
		if !isV1Archive(t) {
			return nil, "", false, hinterr.Errorf(hinterr.ErrNotFound, "no entry %s", dockerManifest)
		}
		all, err = v1Images(t)
		return all, repositories, true, err
	}
	raw, err := readFile(t, dockerManifest, blob.MaxManifest)
	if err != nil {
		return nil, "", false, err
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, "", false, hinterr.Damaged("%s: %v", dockerManifest, err)
	}
	return all, dockerManifest, false, nil
}

// findArchived picks the image with a tag, and says a tag of it, "" if it has none. A tag is a name as docker
// understands it, or the beginning of the ID of an image.
func findArchived(all []archived, tag, listedIn string) (archived, string, error) {
	var names []string
	var fit []archived
	for _, a := range all {
		for _, have := range a.RepoTags {
			if tag != "" && sameImageName(have, tag) {
				return a, have, nil
			}
		}
		id := path.Base(a.Config)
		if isHeadOf(tag, id) {
			fit = append(fit, a)
		}
		if names = append(names, a.RepoTags...); len(a.RepoTags) == 0 {
			names = append(names, strings.TrimSuffix(id, ".json"))
		}
	}
	if tag == "" {
		fit = all
	}
	switch {
	case len(fit) == 1 && len(fit[0].RepoTags) > 0:
		return fit[0], fit[0].RepoTags[0], nil
	case len(fit) == 1:
		return fit[0], "", nil
	case len(all) == 0:
		return archived{}, "", hinterr.Errorf(hinterr.ErrNotFound, "%s lists no image", listedIn)
	case tag != "":
		return archived{}, "", hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no image with the tag %q", tag), "%s", listNames(names))
	}
	return archived{}, "", hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%d images: %w", len(all), ErrSeveral), "%s", listNames(names))
}

// isHeadOf reports whether a tag is the head of an ID, at least what docker shows of it.
func isHeadOf(tag, id string) bool {
	const shown = 12
	return len(tag) >= shown && strings.HasPrefix(id, strings.TrimPrefix(tag, "sha256:"))
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
func savedImage(ctx context.Context, t *archive, a archived) (*image, error) {
	config, err := readFile(t, a.Config, blob.MaxConfig)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	id, _, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	if claim, ok := claimedDigest(a.Config); ok && claim != id {
		return nil, hinterr.Damaged("config %s: got digest %v", a.Config, id)
	}
	var cf v1.ConfigFile
	if err := json.Unmarshal(config, &cf); err != nil {
		return nil, hinterr.Damaged("config %v: %v", id, err)
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
	return fileStore{t, func(h v1.Hash) []string { return []string{names[h]} }}
}

// archivedLayer describes one layer. One that is compressed and has no digest in its name must be read to be named.
func archivedLayer(ctx context.Context, t *archive, name string, diffID v1.Hash) (d v1.Descriptor, err error) {
	if !strings.HasPrefix(diffID.Algorithm, "sha") {
		return d, hinterr.Damaged("%q is not a diff ID", diffID)
	}
	content, err := t.section(name)
	if err != nil {
		return d, err
	}
	head := make([]byte, blob.MagicLen)
	n, err := content.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return d, err
	}
	d.Size = content.Size()
	switch blob.DetectCompression(head[:n]) {
	case blob.PlainStream:
		d.MediaType, d.Digest = types.DockerUncompressedLayer, diffID
		return d, nil
	case blob.GzipStream:
		d.MediaType = types.DockerLayer
	case blob.ZstdStream:
		d.MediaType = types.OCILayerZStd
	}
	if claim, ok := claimedDigest(name); ok && claim != diffID {
		d.Digest = claim
		return d, nil
	}
	d.Digest, _, err = v1.SHA256(blob.Reading{Ctx: ctx, Reader: content})
	return d, err
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
		raw, err := readFile(t, repositories, blob.MaxManifest)
		if err != nil {
			return nil, err
		}
		var repos map[string]map[string]string
		if err := json.Unmarshal(raw, &repos); err != nil {
			return nil, hinterr.Damaged("%s: %v", repositories, err)
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
	slices.SortStableFunc(all, func(a, b archived) int { return slices.Compare(a.RepoTags, b.RepoTags) })
	return all, nil
}

func v1Link(t *archive, id string) (schema1.Link, error) {
	if !schema1.IsID(id) {
		return schema1.Link{}, hinterr.Damaged("%.80q is not a layer ID", id)
	}
	raw, err := readFile(t, id+v1JSON, blob.MaxConfig)
	var l schema1.Link
	if err == nil {
		l, err = schema1.ParseLink(raw)
	}
	if err == nil && l.ID != id {
		err = hinterr.Damaged("image JSON says the ID %.12s", l.ID)
	}
	if err != nil {
		return l, fmt.Errorf("layer %.12s: %w", id, err)
	}
	return l, nil
}

// v1Image makes an image of a layer and those below it. Every layer is read once for its diff ID.
func v1Image(ctx context.Context, t *archive, id string, o Options) (*image, error) {
	var chain []schema1.Link
	for id != "" {
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
	for i := range chain {
		l := &chain[i]
		if err := measureEntry(ctx, t, l, o); err != nil {
			return nil, fmt.Errorf("layer %.12s: %w", l.ID, err)
		}
		names[l.Digest] = l.ID + v1Layer
	}
	m, config, err := schema1.Assemble(chain, "")
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
