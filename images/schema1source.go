package images

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Where schema 1 manifests come from: a registry, or a folder or file beside the layers.

// takeSchema1 makes the image of a schema 1 manifest, whose layers b has, the source's.
func (s *Source) takeSchema1(ctx context.Context, raw []byte, b blobs, o MediaOptions) error {
	img, m, err := schema1Image(ctx, raw, b, o.Progress)
	if err != nil {
		return err
	}
	s.Digest, s.made = m.digest.String(), true
	return s.take(img, o)
}

// takeRemoteSchema1 is takeSchema1 for a registry. The layers must be read to know what
// they are, and so they are kept until the source is closed.
func (s *Source) takeRemoteSchema1(ctx context.Context, n name.Reference, raw []byte, o MediaOptions) error {
	dir, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return err
	}
	s.Close = func() error { return os.RemoveAll(dir) }
	if err := s.takeSchema1(ctx, raw, fetchedBlobs{ctx, n.Context(), dir, o}, o); err != nil {
		s.Close()
		return err
	}
	// A registry's word for the digest of a signed manifest is no proof.
	if d, ok := n.(name.Digest); ok && d.DigestStr() != s.Digest {
		s.Close()
		return damaged("manifest %s: got %s of what the registry sent", d.DigestStr(), s.Digest)
	}
	s.Image = mountedImage{s.Image, n}
	return nil
}

// fetchedBlobs are blobs of a repository, each fetched once into a folder.
type fetchedBlobs struct {
	ctx  context.Context
	repo name.Repository
	dir  string
	o    MediaOptions
}

func (f fetchedBlobs) open(h v1.Hash) (io.ReadCloser, int64, error) {
	path := filepath.Join(f.dir, h.Hex)
	file, size, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.fetch(h, path); err == nil {
			file, size, err = openRegular(path)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return file, size, nil
}

// fetch downloads a blob, verified.
func (f fetchedBlobs) fetch(h v1.Hash, path string) error {
	body, err := site{f.ctx, f.o.net, f.repo, f.repo}.blob(h, -1)
	if err != nil {
		return err
	}
	defer body.Close()
	rc, err := verified(body, h, -1)
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	task := f.o.Progress.Start("read", shortHash(h), -1)
	defer task.Done()
	if _, err := copyTo(f.ctx, out, rc, task); err != nil {
		os.Remove(path)
		return err
	}
	return out.Close()
}

// mountedImage is an image whose layers a registry has, though they are read elsewhere: a
// push to the same registry mounts them.
type mountedImage struct {
	v1.Image
	from name.Reference
}

func (m mountedImage) Layers() ([]v1.Layer, error) {
	layers, err := m.Image.Layers()
	for n, l := range layers {
		layers[n] = &remote.MountableLayer{Layer: l, Reference: m.from}
	}
	return layers, err
}

// Names in the folders of skopeo's transport dir: (containers/image, directory/explanation):
// blobs are there under the digits of their digests, the manifests of an index as well.
const (
	dirManifest       = "manifest.json"
	dirManifestSuffix = ".manifest.json"
)

// dirBlobs are the blobs beside a manifest: as skopeo's dir: has them, as a layout has
// them, or under the whole digest.
type dirBlobs struct{ dir string }

func (d dirBlobs) open(h v1.Hash) (io.ReadCloser, int64, error) {
	for _, path := range []string{
		h.Hex, h.Hex + dirManifestSuffix, h.String(), h.Hex + ".tar", h.Hex + ".tar.gz", blobEntry(h),
	} {
		f, size, err := openRegular(filepath.Join(d.dir, filepath.FromSlash(path)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		return f, size, nil
	}
	return nil, 0, withHint(errorf(ErrNotFound, "%s: no file with the blob %v", d.dir, h),
		"the layers must be beside the manifest, as 'skopeo copy docker://IMAGE dir:FOLDER' puts them")
}

// manifestIn describes the manifest or index in a text; the zero value says that it is none.
func manifestIn(raw []byte) v1.Descriptor {
	var m struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     types.MediaType `json:"mediaType"`
		Config        json.RawMessage `json:"config"`
		Layers        json.RawMessage `json:"layers"`
		Manifests     json.RawMessage `json:"manifests"`
	}
	if json.Unmarshal(raw, &m) != nil || m.SchemaVersion != 2 {
		return v1.Descriptor{}
	}
	d := v1.Descriptor{MediaType: m.MediaType}
	switch { // OCI does not demand the member mediaType
	case d.MediaType != "":
	case m.Manifests != nil:
		d.MediaType = types.OCIImageIndex
	case m.Config != nil && m.Layers != nil:
		d.MediaType = types.OCIManifestSchema1
	}
	if !d.MediaType.IsImage() && !d.MediaType.IsIndex() {
		return v1.Descriptor{}
	}
	d.Digest, d.Size, _ = v1.SHA256(bytes.NewReader(raw)) // of memory: never errs
	return d
}

// openManifest opens the image of a manifest in a file, whose blobs are beside it; nil
// without an error where the file holds none.
func openManifest(ctx context.Context, ref Ref, file string, o MediaOptions) (*Source, error) {
	raw, err := readSmall(file, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	src := &Source{Ref: ref, Close: func() error { return nil }}
	b := dirBlobs{filepath.Dir(file)}
	if looksSchema1(raw) {
		err = src.takeSchema1(ctx, raw, b, o)
	} else {
		d := manifestIn(raw)
		if d.MediaType == "" {
			return nil, nil
		}
		src.Digest = d.Digest.String()
		err = src.choose(ctx, memBlobs{map[v1.Hash][]byte{d.Digest: raw}, b}, d, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return src, nil
}
