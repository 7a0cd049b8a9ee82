// Bare root filesystems, a directory or a tarball such as 'docker export' writes, as images of one layer.

package source

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/textutil"
)

// whiteoutPrefix begins the name of a file that hides another one (image-spec, layer.md, "Whiteouts").
const whiteoutPrefix = ".wh."

// WithRootImage adds an image to a source that is a bare root filesystem; dir writes a directory as a tar stream. Such
// an image has only files: its command must come from the user. It errs for sources other than directories and
// tarballs.
func WithRootImage(ctx context.Context, s *Source, dir func(io.Writer) error, o Options) error {
	o = o.WithDefaults()
	write, of := dir, "a directory"
	if !isDir(s.Path) {
		tarball, err := MaybeTar(s.Path)
		if err == nil && !tarball {
			err = hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: not an image", s.Ref),
				"patch files, directories and tarballs with: vfix patch -o OUTPUT %s", textutil.QuotePath(s.Path))
		}
		if err != nil {
			return err
		}
		write, of = func(w io.Writer) error { return copyTarball(ctx, w, s.Path, o.Progress) }, "a tarball"
	}
	o.Progress.Note("%s is a root filesystem: it becomes an image with one layer", s.Path)
	packed, err := blob.PackLayer(packLevel, write)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	s.AtEnd(func() error { packed.Close(); return nil })
	config, err := blob.EncodeJSON(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{packed.PlainDigest.String()}},
		"history": []map[string]string{{"created_by": "vfix: the files of " + of}},
	})
	if err != nil {
		return err
	}
	img, err := madeImage(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Layers: []v1.Descriptor{{MediaType: types.OCILayer, Size: packed.PackedSize, Digest: packed.PackedDigest}},
	}, config, packedStore{packed})
	if err == nil {
		err = s.take(img, o)
	}
	if err == nil {
		s.Path = ""
	}
	return err
}

// packedStore has one blob, a layer that was made here.
type packedStore struct{ layer *blob.PackedLayer }

func (p packedStore) open(d v1.Descriptor) (io.ReadCloser, int64, error) {
	if d.Digest != p.layer.PackedDigest {
		return nil, 0, hinterr.Errorf(hinterr.ErrNotFound, "no blob %v", d.Digest)
	}
	r, err := p.layer.Compressed()
	return r, p.layer.PackedSize, err
}

// MayBeInLayer returns an error for the name of a file that would hide another one if it were in a layer.
func MayBeInLayer(name string) error {
	if !strings.HasPrefix(path.Base(name), whiteoutPrefix) {
		return nil
	}
	return hinterr.Errorf(hinterr.ErrUnsupported, "%s: in a layer, a name that begins with %s hides files", name, whiteoutPrefix)
}

// copyTarball copies the tar stream of a tarball, byte for byte, and checks that each member can be in a layer.
func copyTarball(ctx context.Context, w io.Writer, name string, p progress.Reporter) error {
	f, size, err := blob.OpenRegular(name)
	if err != nil {
		return err
	}
	defer f.Close()
	task := p.Start("read", name, size)
	defer task.Done()
	body, _, err := blob.Decompress(ctx, blob.Reading{Ctx: ctx, Reader: f, T: task})
	if err != nil {
		return err
	}
	defer body.Close()
	in := bufio.NewReaderSize(io.TeeReader(body, w), blob.CopyBuffer)
	for m, err := range blob.Members(in) {
		if err == nil {
			err = MayBeInLayer(m.Path)
		}
		if err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
