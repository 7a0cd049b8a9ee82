// Bare root filesystems as images of one layer: the output of docker export, a directory, the contents of a SIF
// file. Such an image has only files, so its command must come from the user (RunConfig).

package sources

import (
	"bufio"
	"context"
	"io"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/rewriter/patch"
)

// RunConfig is how an image runs, if its source does not have this.
type RunConfig struct { // in the order of the keys
	Cmd        []string `json:",omitempty"`
	Entrypoint []string `json:",omitempty"`
	Env        []string `json:",omitempty"` // NAME=VALUE
	User       string   `json:",omitempty"`
	WorkingDir string   `json:",omitempty"`
}

// config returns the image config; equal files and choices give equal bytes.
func (r RunConfig) config(diffID v1.Hash, of string) ([]byte, error) {
	return jsonobject.Encode(map[string]any{
		"architecture": "amd64", "os": "linux", "config": r,
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{diffID.String()}},
		"history": []map[string]string{{"created_by": "vfix: the files of " + of}},
	})
}

// IsZero reports whether no option is set.
func (r RunConfig) IsZero() bool {
	return len(r.Entrypoint) == 0 && len(r.Cmd) == 0 && len(r.Env) == 0 && r.WorkingDir == "" && r.User == ""
}

// WithRootImage adds an image to a source that is a bare root filesystem. The caller closes it as before. It
// returns an error for sources other than directories and tarballs.
func WithRootImage(ctx context.Context, s *media.Source, run RunConfig, o media.Options) error {
	o = o.WithDefaults()
	fi, err := os.Stat(s.Path)
	if err != nil {
		return err
	}
	write, of := writeDir, "a directory"
	if !fi.IsDir() {
		tarball, err := contents.IsTarball(s.Path)
		if err != nil {
			return err
		}
		if !tarball {
			return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: not an image", s.Ref),
				"patch files, directories and tarballs with: vfix patch -o OUTPUT %s", quote.Path(s.Path))
		}
		write, of = copyTarball, "a tarball"
	}
	progress.Note(o.Progress, "%s is a root filesystem: it becomes an image with one layer", s.Path)
	layer, err := contents.PackLayer(func(w io.Writer) error { return contents.WrapPath(s.Path, write(ctx, w, s.Path, o)) })
	if err != nil {
		return err
	}
	made := oneLayer{
		Descriptor: v1.Descriptor{MediaType: types.OCILayer, Size: layer.PackedSize, Digest: layer.PackedDigest},
		open:       layer.Compressed,
	}
	if fi.IsDir() {
		made.top, err = topMeta(s.Path)
	}
	if err == nil {
		err = made.take(s, types.OCIManifestSchema1, run, layer.PlainDigest, of, o)
	}
	if err != nil {
		layer.Close()
		return err
	}
	s.AtEnd(func() error { layer.Close(); return nil })
	s.Path = ""
	return nil
}

// oneLayer is the layer of an image whose manifest vfix made, and its origin.
type oneLayer struct {
	v1.Descriptor
	open func() (io.ReadCloser, error)
	top  *contents.Meta // of a directory, which is not in the layer
	sif  *sifFile
}

// take adds the image of the layer to a source.
func (l oneLayer) take(src *media.Source, form types.MediaType, run RunConfig, diffID v1.Hash, of string, o media.Options) error {
	config, err := run.config(diffID, of)
	if err != nil {
		return err
	}
	img, err := blob.MadeImage(v1.Manifest{SchemaVersion: 2, MediaType: form, Layers: []v1.Descriptor{l.Descriptor}}, config, l)
	if err != nil {
		return err
	}
	return src.Take(img, o)
}

// Open implements blob.Blobs.
func (l oneLayer) Open(d v1.Descriptor) (io.ReadCloser, int64, error) {
	if d.Digest != l.Digest {
		return nil, 0, hinterr.Errorf(hinterr.ErrNotFound, "no blob %v", d.Digest)
	}
	r, err := l.open()
	return r, l.Size, err
}

// madeOf returns the origin of an image whose manifest vfix made; the zero value for other images.
func madeOf(img v1.Image) (l oneLayer) {
	if stored, ok := img.(*blob.Image); ok {
		l, _ = blob.Origin(stored.Blobs).(oneLayer)
	}
	return l
}

func topMeta(dir string) (*contents.Meta, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := contents.OpenMeta(f)
	return &m, contents.WrapPath(dir, err)
}

// errHidden returns the error for a file that would hide another one if it were in a layer.
func errHidden(name string) error {
	return hinterr.Errorf(hinterr.ErrUnsupported, "%s: in a layer a name with %s in front hides files", name, contents.WhiteoutPrefix)
}

// copyTarball copies the tar stream of a tarball, byte for byte, and checks each member: it returns an error for
// one that cannot be in a layer.
func copyTarball(ctx context.Context, w io.Writer, name string, o media.Options) error {
	f, size, err := blob.OpenRegular(name)
	if err != nil {
		return err
	}
	defer f.Close()
	task := o.Progress.Start("read", name, size)
	defer task.Done()
	body, _, err := blob.Decompress(ctx, blob.Reading{Ctx: ctx, Reader: f, T: task})
	if err != nil {
		return err
	}
	defer body.Close()
	in := bufio.NewReaderSize(io.TeeReader(body, w), blob.CopyBuffer)
	for m, err := range blob.Members(in) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(path.Base(m.Path), contents.WhiteoutPrefix) {
			return errHidden(m.Path)
		}
	}
	_, err = blob.CopyTo(ctx, io.Discard, in, nil)
	return err
}

// writeDir writes a directory as a tar stream: sorted by name, with owners, modes, times, extended attributes
// and hard links. It omits sockets, and mounts in the directory.
func writeDir(ctx context.Context, w io.Writer, name string, o media.Options) error {
	d, err := contents.OpenDisk(name)
	if err != nil {
		return err
	}
	defer d.Close()
	d.Whole, d.Unexamined = true, true
	s := contents.NewSession(0, nil, patch.Options{})
	defer s.Close()
	t, err := d.Tree(ctx, s)
	if err != nil {
		return err
	}
	task := o.Progress.Start("read", name, -1)
	defer task.Done()
	return t.WriteTar(ctx, w, task, func(name string) error {
		if strings.HasPrefix(path.Base(name), contents.WhiteoutPrefix) {
			return errHidden(name)
		}
		return nil
	})
}
