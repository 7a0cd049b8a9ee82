// Writing archives: those of docker load, and the entries of all.

package source

import (
	"archive/tar"
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
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
// of which every docker load reads; only newer ones (23.0) read zstd, so such a layer becomes gzip. The bytes depend
// only on the image and tag.
func writeDockerTar(ctx context.Context, w io.Writer, tag string, img v1.Image, o Options) (id v1.Hash, err error) {
	img, done, err := portable(ctx, img, DockerArchive, o)
	if err != nil {
		return id, err
	}
	defer done()
	if id, err = img.ConfigName(); err != nil {
		return id, err
	}
	layers, err := img.Layers()
	if err != nil {
		return id, err
	}
	for _, l := range layers {
		if digest, err := l.Digest(); err != nil || !AtHand(l) {
			return id, cmp.Or(err, hinterr.Errorf(hinterr.ErrUnsupported, "%v is a foreign layer, which is not with the image", digest))
		}
	}
	var ref name.Reference = new(name.Repository).Digest(id.String()) // gives the archive no name
	if tag != "" {
		if tag, err = fullTag(tag); err == nil {
			ref, err = name.NewTag(tag)
		}
		if err != nil {
			return id, err
		}
	}
	size, err := tarball.CalculateSize(map[name.Reference]v1.Image{ref: img})
	if err != nil {
		return id, err
	}
	task := o.Progress.Start("write", blob.ShortHash(id), size)
	defer task.Done()
	return id, blob.Piped(
		func(to io.Writer) error { return tarball.Write(ref, img, to) },
		func(r io.Reader) error {
			_, err := blob.CopyTo(ctx, w, r, task)
			return err
		})
}
