// Reading the archives of docker save.

package media

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/lazy"
)

// Names inside the archives of docker save (docker-image-spec v1.2.md, "Combined Image
// JSON + Filesystem Changeset Format").
const (
	ArchiveManifest = "manifest.json"
	ArchiveV1       = "repositories" // see archivev1.go
)

// ArchiveImage is one image of manifest.json.
type ArchiveImage struct {
	Config   string
	RepoTags []string
	Layers   []string // the base layer first
}

// entryBlobs are entries of a docker archive under the digests they have, or claim to have.
type entryBlobs struct {
	t  *tarFile
	at map[v1.Hash]tarEntry
}

func (b entryBlobs) Open(d v1.Descriptor) (io.ReadCloser, int64, error) {
	e, ok := b.at[d.Digest]
	if !ok {
		return nil, 0, hinterr.Errorf(hinterr.ErrNotFound, "no blob %v", d.Digest)
	}
	return b.t.section(e), e.size, nil
}

// OpenDockerArchive opens the image of a docker archive.
func OpenDockerArchive(ctx context.Context, ref Ref, o Options) (*Source, error) {
	t, err := OpenTar(ctx, ref.Name, o, nil)
	if err != nil {
		return nil, fmt.Errorf("docker archive: %w", err)
	}
	return FromDockerArchive(ctx, t, ref, o)
}

// FromDockerArchive makes a source of an archive, which it closes if it cannot.
func FromDockerArchive(ctx context.Context, t *tarFile, ref Ref, o Options) (*Source, error) {
	img, tag, err := archivedImage(ctx, t, ref.Tag, o)
	src := &Source{Ref: ref, Close: t.Close}
	if err == nil {
		src.Ref.Tag = tag
		err = src.Take(img, o)
	}
	if err == nil {
		var id v1.Hash
		id, err = img.ConfigName()
		src.Digest = id.String()
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("docker archive %s: %w", ref.Name, err)
	}
	return src, nil
}

// archivedImage finds the image that a tag names in a docker archive, or the only one, and
// its tag, "" if it has none.
//
// Such an archive has no manifest; the one made here says what there is: a layer that was
// saved uncompressed has its diff ID as its digest, so nothing needs compressing to name
// it. The config is untouched, and with it the image ID.
func archivedImage(ctx context.Context, t *tarFile, tag string, o Options) (*blob.Image, string, error) {
	if !t.Has(ArchiveManifest) {
		if IsV1Archive(t) {
			return v1Image(ctx, t, tag, o)
		}
		err := hinterr.Errorf(hinterr.ErrNotFound, "no entry %s", ArchiveManifest)
		if t.Has(LayoutIndex) {
			err = hinterr.With(err, "it is an OCI archive: oci-archive:%s", t.name)
		}
		return nil, "", err
	}
	raw, err := t.read(ArchiveManifest, blob.MaxManifest)
	if err != nil {
		return nil, "", err
	}
	var all []ArchiveImage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, "", hinterr.Damaged("%s: %v", ArchiveManifest, err)
	}
	a, err := findArchived(all, tag)
	if err != nil {
		return nil, "", err
	}
	img, err := synthesize(ctx, t, a)
	if err != nil {
		return nil, "", err
	}
	if tag == "" && len(a.RepoTags) > 0 {
		tag = a.RepoTags[0]
	}
	return img, tag, nil
}

// findArchived picks the image with the tag; names are compared as docker understands them
// (redis is docker.io/library/redis:latest).
func findArchived(all []ArchiveImage, tag string) (ArchiveImage, error) {
	var tags []string
	for _, a := range all {
		for _, have := range a.RepoTags {
			if tag != "" && sameImageName(have, tag) {
				return a, nil
			}
			tags = append(tags, have)
		}
	}
	switch {
	case len(all) == 0:
		return ArchiveImage{}, hinterr.Errorf(hinterr.ErrNotFound, "%s lists no image", ArchiveManifest)
	case tag != "":
		return ArchiveImage{}, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no image with the tag %q", tag), "%s", listTags(tags))
	case len(all) > 1:
		return ArchiveImage{}, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%d images: name one of them", len(all)), "%s", listTags(tags))
	}
	return all[0], nil
}

// hexName finds the digest in the names that docker, skopeo and go-containerregistry give
// the entries of an archive: HEX.json, HEX.tar, HEX.tar.gz, sha256:HEX, blobs/sha256/HEX.
// In HEX/layer.tar, docker's own, HEX is not a digest of anything.
var hexName = lazy.Regexp(`^(?:sha256:)?([0-9a-f]{64})(?:\.json|\.tar|\.tar\.gz|\.tar\.zst)?$`)

// claimedDigest is the digest in an entry's name.
func claimedDigest(name string) (v1.Hash, bool) {
	m := hexName().FindStringSubmatch(path.Base(name))
	if m == nil {
		return v1.Hash{}, false
	}
	return v1.Hash{Algorithm: "sha256", Hex: m[1]}, true
}

// synthesize makes the manifest of an archived image.
func synthesize(ctx context.Context, t *tarFile, a ArchiveImage) (*blob.Image, error) {
	config, err := t.read(a.Config, blob.MaxConfig)
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
	if len(cf.RootFS.DiffIDs) != len(a.Layers) {
		return nil, hinterr.Damaged("config %v: got %d diff IDs, want %d as %s lists layers",
			id, len(cf.RootFS.DiffIDs), len(a.Layers), ArchiveManifest)
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.DockerManifestSchema2, Layers: []v1.Descriptor{}}
	b := entryBlobs{t, map[v1.Hash]tarEntry{}}
	for n, name := range a.Layers {
		d, e, err := archivedLayer(ctx, t, name, cf.RootFS.DiffIDs[n])
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", n, err)
		}
		m.Layers = append(m.Layers, d)
		b.at[d.Digest] = e
	}
	return blob.MadeImage(m, config, b)
}

// archivedLayer describes one layer. One that is compressed and has no digest in its name
// must be read to be named.
func archivedLayer(ctx context.Context, t *tarFile, name string, diffID v1.Hash) (v1.Descriptor, tarEntry, error) {
	d := v1.Descriptor{}
	if !strings.HasPrefix(diffID.Algorithm, "sha") {
		return d, tarEntry{}, hinterr.Damaged("%q is not a diff ID", diffID)
	}
	e, err := t.find(name)
	if err != nil {
		return d, e, err
	}
	head := make([]byte, blob.MagicLen)
	n, err := io.ReadFull(t.section(e), head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return d, e, err
	}
	d.Size = e.size
	switch blob.DetectCompression(head[:n]) {
	case blob.PlainStream:
		d.MediaType, d.Digest = types.DockerUncompressedLayer, diffID
		return d, e, nil
	case blob.GzipStream:
		d.MediaType = types.DockerLayer
	case blob.ZstdStream:
		d.MediaType = types.OCILayerZStd
	}
	if claim, ok := claimedDigest(name); ok && claim != diffID {
		d.Digest = claim
		return d, e, nil
	}
	d.Digest, _, err = v1.SHA256(blob.Reading{Ctx: ctx, Reader: t.section(e), T: nil})
	return d, e, err
}
