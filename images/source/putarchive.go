// Writing archives: those of docker load, and the entries of all.

package source

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
)

// putArchive writes a result as a docker archive, for docker load, or as an OCI layout in a tar file. A docker archive
// holds one platform; its tag is the name that the image gets there.
func putArchive(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	fail := func(err error) (Stored, error) {
		return Stored{}, fmt.Errorf("%s %s: %w", archiveWords[dest.Transport], dest.Name, err)
	}
	f, err := atomicfile.Create(dest.Name)
	if err != nil {
		return fail(err)
	}
	defer f.Discard()
	var digest v1.Hash
	if dest.Transport == DockerArchive {
		if r.Index != nil {
			o.Progress.Note("a docker archive holds one platform: the others are omitted")
		}
		digest, err = writeDockerTar(ctx, f, archiveTag(dest, r.Source), r.Image, o)
	} else {
		digest, err = writeOCITar(ctx, f, dest.Tag, r, o)
	}
	if err == nil {
		err = f.Commit()
	}
	if err != nil {
		return fail(err)
	}
	return Stored{Reference: dest.String(), Digest: digest.String()}, nil
}

// archiveTag is the name of the image in a docker archive: without a tag of dest, that which its source has, so that
// an engine that loads the archive can run it by a name.
func archiveTag(dest, from Ref) string {
	if dest.Tag != "" || from == (Ref{}) {
		return dest.Tag
	}
	tag, err := DefaultName(from, "-vfix")
	if err != nil {
		return ""
	}
	return tag
}

// tarHeader begins a file of size bytes, with no owner and no time.
func tarHeader(tw *tar.Writer, name string, size int64) error {
	return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644})
}

func tarBytes(tw *tar.Writer, name string, data []byte) error {
	if err := tarHeader(tw, name, int64(len(data))); err != nil {
		return err
	}
	_, err := tw.Write(data)
	return err
}

// writeDockerTar writes an image as docker save does and returns its ID. Layers go as they are, gzip'ed or plain, both
// of which every docker load reads; only newer ones (23.0) read zstd, so such a layer is unpacked. The bytes depend
// only on the image and tag.
func writeDockerTar(ctx context.Context, w io.Writer, tag string, img v1.Image, o Options) (v1.Hash, error) {
	var m archived
	if tag != "" {
		t, err := fullTag(tag)
		if err != nil {
			return v1.Hash{}, err
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
	m.Config, m.Layers = id.Hex+".json", []string{}
	if err := tarBytes(tw, m.Config, config); err != nil {
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
	raw, err := jsonobject.Encode([]archived{m})
	if err != nil {
		return id, err
	}
	if err := tarBytes(tw, dockerManifest, raw); err != nil {
		return id, err
	}
	return id, tw.Close()
}

// writeDockerLayer writes a layer, unless it is written already, and returns its name. The content, not the media
// type, says how it is compressed.
func writeDockerLayer(ctx context.Context, tw *tar.Writer, l v1.Layer, written map[v1.Hash]string, o Options) (string, error) {
	digest, err := l.Digest()
	size, serr := l.Size()
	if err := cmp.Or(err, serr); err != nil || written[digest] != "" {
		return written[digest], err
	}
	if IsForeign(l) && !AtHand(l) {
		return "", hinterr.Errorf(hinterr.ErrUnsupported, "%v is a foreign layer, which is not with the image", digest)
	}
	rc, err := blob.OpenUnverified(l)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	in := bufio.NewReaderSize(rc, blob.CopyBuffer)
	head, err := in.Peek(blob.MagicLen)
	if err != nil && err != io.EOF {
		return "", err
	}
	b := blobToWrite{digest, size, blob.LayerName(l, digest), func() (io.ReadCloser, error) { return io.NopCloser(in), nil }}
	name := digest.Hex + ".tar"
	switch blob.DetectCompression(head) {
	case blob.GzipStream:
		name += ".gz"
	case blob.ZstdStream:
		f, plain, err := unpacked(l)
		if err != nil {
			return "", err
		}
		defer blob.RemoveTemp(f)
		b.digest, b.size = plain.digest, plain.size
		b.open = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, plain.size)), nil }
		name = plain.digest.Hex + ".tar"
	}
	written[digest] = name
	if err := tarHeader(tw, name, b.size); err != nil {
		return "", err
	}
	return name, b.copyTo(ctx, tw, o)
}

// unpacked unpacks a layer into a temporary file: tar needs the size first.
func unpacked(l v1.Layer) (f *os.File, plain blobToWrite, err error) {
	if plain.digest, err = l.DiffID(); err != nil {
		return nil, plain, err
	}
	rc, err := l.Uncompressed()
	if err != nil {
		return nil, plain, err
	}
	defer rc.Close()
	if f, err = blob.TempFile(); err != nil {
		return nil, plain, err
	}
	if plain.size, err = io.Copy(f, rc); err != nil {
		blob.RemoveTemp(f)
	}
	return f, plain, err
}
