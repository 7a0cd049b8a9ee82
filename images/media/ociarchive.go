// Reading OCI layouts in a tar archive.

package media

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// archiveBlobs are the blobs of an OCI layout in a tar archive.
type archiveBlobs struct{ t *tarFile }

func blobEntry(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

func (a archiveBlobs) Open(h v1.Hash) (io.ReadCloser, int64, error) {
	e, err := a.t.find(blobEntry(h))
	if err != nil {
		return nil, 0, err
	}
	return a.t.section(e), e.size, nil
}

// OpenOCIArchive opens the image of an OCI layout in a tar archive.
func OpenOCIArchive(ctx context.Context, ref Ref, o Options) (*Source, error) {
	t, err := OpenTar(ctx, ref.Name, o, nil)
	if err != nil {
		return nil, fmt.Errorf("oci archive: %w", err)
	}
	return FromOCIArchive(ctx, t, ref, o)
}

// FromOCIArchive makes a source of an archive, which it closes if it cannot.
func FromOCIArchive(ctx context.Context, t *tarFile, ref Ref, o Options) (*Source, error) {
	src, err := func() (*Source, error) {
		raw, err := t.read(LayoutIndex, blob.MaxManifest)
		if err != nil {
			return nil, err
		}
		marker, err := t.read(LayoutFile, blob.MaxManifest)
		if err != nil {
			return nil, err
		}
		return fromLayout(ctx, ref, archiveBlobs{t}, marker, raw, o)
	}()
	if err != nil {
		t.Close()
		if errors.Is(err, hinterr.ErrNotFound) && t.Has(ArchiveManifest) && !t.Has(LayoutIndex) {
			err = hinterr.With(err, "it is a docker archive: docker-archive:%s", ref.Name)
		}
		return nil, fmt.Errorf("oci archive %s: %w", ref.Name, err)
	}
	src.Close = t.Close
	return src, nil
}
