package images

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// archiveBlobs are the blobs of an OCI layout in a tar archive.
type archiveBlobs struct{ t *tarFile }

func blobEntry(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

func (a archiveBlobs) open(h v1.Hash) (io.ReadCloser, int64, error) {
	e, err := a.t.find(blobEntry(h))
	if err != nil {
		return nil, 0, err
	}
	return a.t.section(e), e.size, nil
}

// openOCIArchive opens the image of an OCI layout in a tar archive.
func openOCIArchive(ctx context.Context, ref Ref, o MediaOptions) (*Source, error) {
	t, err := openTar(ctx, ref.Name, o, nil)
	if err != nil {
		return nil, fmt.Errorf("oci archive: %w", err)
	}
	return ociArchive(ctx, t, ref, o)
}

// ociArchive makes a source of an archive, which it closes if it cannot.
func ociArchive(ctx context.Context, t *tarFile, ref Ref, o MediaOptions) (*Source, error) {
	src, err := func() (*Source, error) {
		raw, err := t.read(layoutIndex, maxManifest)
		if err != nil {
			return nil, err
		}
		marker, err := t.read(layoutFile, maxManifest)
		if err != nil {
			return nil, err
		}
		return fromLayout(ctx, ref, archiveBlobs{t}, marker, raw, o)
	}()
	if err != nil {
		t.Close()
		if errors.Is(err, ErrNotFound) && t.has(archiveManifest) && !t.has(layoutIndex) {
			err = withHint(err, "it is a docker archive: docker-archive:%s", ref.Name)
		}
		return nil, fmt.Errorf("oci archive %s: %w", ref.Name, err)
	}
	src.Close = t.Close
	return src, nil
}
