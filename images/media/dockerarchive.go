// The archives of docker save: reading and writing them.

package media

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
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
	old      bool     // of an archive of the old form: Config is the ID of the topmost layer
}

// entryBlobs are entries of a docker archive, by the digests they have, or claim to have.
func entryBlobs(t *tarFile, names map[v1.Hash]string) fileBlobs {
	return fileBlobs{in: t, names: func(h v1.Hash) []string { return []string{names[h]} }}
}

// dockerImage opens the image of a docker archive that ref's tag names, or the only one.
//
// Such an archive has no manifest; the one made here describes the archive as it is: a layer
// that was saved uncompressed has its diff ID as its digest, so that it need not be compressed
// to name it. The config is unchanged, and so is the image ID.
func dockerImage(ctx context.Context, t *tarFile, ref Ref, o Options) (*Source, error) {
	list, read := ArchiveManifest, archivedImages
	switch {
	case t.Has(ArchiveManifest):
	case IsV1Archive(t):
		list, read = ArchiveV1, v1Images
	default:
		err := hinterr.Errorf(hinterr.ErrNotFound, "no entry %s", ArchiveManifest)
		if t.Has(LayoutIndex) {
			err = hinterr.With(err, "it is an OCI archive: oci-archive:%s", t.name)
		}
		return nil, err
	}
	all, err := read(t, ref.Tag)
	if err != nil {
		return nil, err
	}
	a, tag, err := findArchived(all, ref.Tag, list)
	if err != nil {
		return nil, err
	}
	var img *blob.Image
	if a.old {
		img, err = v1Image(ctx, t, a.Config, o)
	} else {
		img, err = synthesize(ctx, t, a)
	}
	if err != nil {
		return nil, err
	}
	id, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	ref.Tag = tag
	src := &Source{Ref: ref, Digest: id.String()}
	return src, src.Take(img, o)
}

func archivedImages(t *tarFile, _ string) (all []ArchiveImage, err error) {
	raw, err := readFile(t, ArchiveManifest, blob.MaxManifest)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, hinterr.Damaged("%s: %v", ArchiveManifest, err)
	}
	return all, nil
}

// findArchived picks the image with a tag, and says a tag of it, "" if it has none; list is the name of the list.
// Names are compared as docker understands them (redis is docker.io/library/redis:latest); the head of an old
// image's ID is also one.
func findArchived(all []ArchiveImage, tag, list string) (ArchiveImage, string, error) {
	var tags []string
	var fit []ArchiveImage
	for _, a := range all {
		for _, have := range a.RepoTags {
			if tag != "" && sameImageName(have, tag) {
				return a, have, nil
			}
		}
		if a.old && isHeadOf(tag, a.Config) {
			fit = append(fit, a)
		}
		if tags = append(tags, a.RepoTags...); a.old && tag == "" && len(a.RepoTags) == 0 {
			tags = append(tags, a.Config)
		}
	}
	if tag == "" {
		fit = all
	}
	var why error
	switch {
	case len(fit) == 1 && tag == "" && len(fit[0].RepoTags) > 0:
		return fit[0], fit[0].RepoTags[0], nil
	case len(fit) == 1:
		return fit[0], "", nil
	case len(all) == 0:
		return ArchiveImage{}, "", hinterr.Errorf(hinterr.ErrNotFound, "%s lists no image", list)
	case tag != "":
		why = fmt.Errorf("no image with the tag %q", tag)
	default:
		why = fmt.Errorf("%d images: %w", len(all), ErrSeveral)
	}
	return ArchiveImage{}, "", hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%w", why), "%s", listNames(tags))
}

// hexName finds the digest in the names that docker, skopeo and go-containerregistry give
// the entries of an archive: HEX.json, HEX.tar, HEX.tar.gz, sha256:HEX, blobs/sha256/HEX.
// In HEX/layer.tar, docker's own, HEX is not a digest of anything.
var hexName = lazy.Regexp(`^(?:sha256:)?([0-9a-f]{64})(?:\.json|\.tar|\.tar\.gz|\.tar\.zst)?$`)

func claimedDigest(name string) (v1.Hash, bool) {
	m := hexName().FindStringSubmatch(path.Base(name))
	if m == nil {
		return v1.Hash{}, false
	}
	return v1.Hash{Algorithm: "sha256", Hex: m[1]}, true
}

// synthesize makes the manifest of an archived image.
func synthesize(ctx context.Context, t *tarFile, a ArchiveImage) (*blob.Image, error) {
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
	if len(cf.RootFS.DiffIDs) != len(a.Layers) {
		return nil, hinterr.Damaged("config %v: got %d diff IDs, want %d, one for each layer in %s",
			id, len(cf.RootFS.DiffIDs), len(a.Layers), ArchiveManifest)
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
	return blob.MadeImage(m, config, entryBlobs(t, names))
}

// archivedLayer describes one layer. One that is compressed and has no digest in its name
// must be read to be named.
func archivedLayer(ctx context.Context, t *tarFile, name string, diffID v1.Hash) (d v1.Descriptor, err error) {
	if !strings.HasPrefix(diffID.Algorithm, "sha") {
		return d, hinterr.Damaged("%q is not a diff ID", diffID)
	}
	e, err := t.find(name)
	if err != nil {
		return d, err
	}
	head := make([]byte, blob.MagicLen)
	n, err := io.ReadFull(t.section(e), head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return d, err
	}
	d.Size = e.size
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
	d.Digest, _, err = v1.SHA256(blob.Reading{Ctx: ctx, Reader: t.section(e), T: nil})
	return d, err
}

// writeDockerTar writes an image as docker save does and returns its ID. Layers go as they
// are, gzip'ed or plain, both of which every docker load reads; only newer ones (23.0) read
// zstd, so such a layer is unpacked. The bytes depend only on the image and tag.
func writeDockerTar(ctx context.Context, w io.Writer, tag string, img v1.Image, o Options) (v1.Hash, error) {
	var id v1.Hash
	m := ArchiveImage{Layers: []string{}}
	if tag != "" {
		t, err := fullTag(tag)
		if err != nil {
			return id, err
		}
		m.RepoTags = []string{t}
	}
	id, err := img.ConfigName()
	config, cerr := img.RawConfigFile()
	layers, lerr := img.Layers()
	if err := cmp.Or(err, cerr, lerr); err != nil {
		return id, err
	}
	tw := tar.NewWriter(w)
	m.Config = id.Hex + ".json"
	if err := TarBytes(tw, m.Config, config); err != nil {
		return id, err
	}
	written := map[v1.Hash]string{}
	for n, l := range layers {
		name, err := writeDockerLayer(ctx, tw, l, written, o)
		if err != nil {
			return id, fmt.Errorf("layer %d: %w", n, err)
		}
		m.Layers = append(m.Layers, name)
	}
	raw, err := json.Marshal([]ArchiveImage{m})
	if err != nil {
		return id, err
	}
	if err := TarBytes(tw, ArchiveManifest, raw); err != nil {
		return id, err
	}
	return id, tw.Close()
}

// writeDockerLayer writes a layer, unless it is written already, and returns its name. The
// content, not the media type, says how it is compressed.
func writeDockerLayer(ctx context.Context, tw *tar.Writer, l v1.Layer, written map[v1.Hash]string, o Options) (string, error) {
	digest, err := l.Digest()
	if err != nil {
		return "", err
	}
	if name := written[digest]; name != "" {
		return name, nil
	}
	size, err := l.Size()
	if err != nil {
		return "", err
	}
	if !AtHand(l) {
		return "", hinterr.Errorf(hinterr.ErrUnsupported, "%v is a foreign layer, which is not with the image", digest)
	}
	rc, err := blob.OpenUnverified(l)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	br := bufio.NewReaderSize(rc, blob.CopyBuffer)
	head, err := br.Peek(blob.MagicLen)
	if err != nil && err != io.EOF {
		return "", err
	}
	b := blob.BlobToWrite{Digest: digest, Size: size, Layer: blob.LayerName(l, digest), Open: func() (io.ReadCloser, error) { return io.NopCloser(br), nil }}
	name := digest.Hex + ".tar"
	switch blob.DetectCompression(head) {
	case blob.GzipStream:
		name += ".gz"
	case blob.ZstdStream:
		rc.Close()
		var done func()
		if b, done, err = spoolPlain(ctx, l); err != nil {
			return "", err
		}
		defer done()
		name = b.Digest.Hex + ".tar"
	}
	written[digest] = name
	if err := tarHeader(tw, name, b.Size); err != nil {
		return "", err
	}
	return name, copyBlob(ctx, tw, b, o)
}

// spoolPlain unpacks a layer into a temporary file: tar needs the size first. done removes
// the file.
func spoolPlain(ctx context.Context, l v1.Layer) (b blob.BlobToWrite, done func(), err error) {
	diffID, err := l.DiffID()
	if err != nil {
		return b, nil, err
	}
	rc, err := l.Uncompressed()
	if err != nil {
		return b, nil, err
	}
	defer rc.Close()
	k, err := blob.Keep(blob.Reading{Ctx: ctx, Reader: rc})
	if err != nil {
		return b, nil, err
	}
	return blob.BlobToWrite{Digest: diffID, Size: k.N, Layer: blob.ShortHash(diffID), Open: func() (io.ReadCloser, error) {
		return k.Open(), nil
	}}, k.Close, nil
}
