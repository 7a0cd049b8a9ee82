// Writing an image as docker save does.

package media

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// PutDockerArchive writes a result's image for docker load. The tag, where dest has one, is
// the name it gets there.
func PutDockerArchive(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	fail := func(err error) (Stored, error) {
		return Stored{}, fmt.Errorf("docker archive %s: %w", dest.Name, err)
	}
	f, release, err := atomicfile.CreateLocked(ctx, dest.Name, o.Progress)
	if err != nil {
		return fail(err)
	}
	defer release()
	if r.Index != nil {
		o.Progress.Note("a docker archive holds one platform: the others are left out")
	}
	id, err := writeDockerTar(ctx, f, dest.Tag, r.Image, o)
	if err != nil {
		return fail(err)
	}
	return commitStated(f, dest, r, Stored{Reference: dest.String(), Digest: id.String()}, fail)
}

// writeDockerTar writes an image as docker save does and returns its ID. Layers go as they
// are, gzip'ed or plain, both of which every docker load reads; zstd only newer ones (23.0)
// do, so such a layer is unpacked. Nothing in it depends on anything but the image and tag.
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
	if err != nil {
		return id, err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return id, err
	}
	layers, err := img.Layers()
	if err != nil {
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
		if b, done, err = spoolPlain(ctx, l, o); err != nil {
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
func spoolPlain(ctx context.Context, l v1.Layer, o Options) (b blob.BlobToWrite, done func(), err error) {
	diffID, err := l.DiffID()
	if err != nil {
		return b, nil, err
	}
	f, err := os.CreateTemp("", atomicfile.TempPrefix+"*.layer")
	if err != nil {
		return b, nil, err
	}
	w := &blob.HoleWriter{W: f, Room: blob.Temp}
	done = func() {
		w.Release()
		f.Close()
		os.Remove(f.Name())
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	rc, err := l.Uncompressed()
	if err != nil {
		return b, nil, err
	}
	defer rc.Close()
	if err := w.Copy(blob.Reading{Ctx: ctx, Reader: rc, T: nil}); err != nil {
		return b, nil, err
	}
	return blob.BlobToWrite{Digest: diffID, Size: w.N, Layer: blob.ShortHash(diffID), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(f, 0, w.N)), nil
	}}, done, f.Truncate(w.N)
}
