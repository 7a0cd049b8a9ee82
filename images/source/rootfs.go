// Bare root filesystems: a directory or a tarball such as 'docker export' writes as an image of one layer, and the checks
// before one is written to a directory.

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// whiteoutPrefix begins the name of a file that hides another one (image-spec, layer.md, "Whiteouts").
const whiteoutPrefix = ".wh."

// checkTarball returns an error for a file that is neither an image nor a tarball.
func checkTarball(s *Source) error {
	tarball, err := IsTarball(s.Path)
	if err == nil && !tarball {
		err = hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: not an image", s.Ref),
			"patch files, directories and tarballs with: vfix patch -o COPY FILE")
	}
	return err
}

// WithRootImage adds an image to a source that is a bare root filesystem; dir writes a directory as a tar stream. Such
// an image has only files: its command must come from the user. It errs for sources other than directories and
// tarballs.
func WithRootImage(ctx context.Context, s *Source, dir func(io.Writer) error, o Options) error {
	o = o.WithDefaults()
	write, of, name := dir, "a directory", s.Title()
	if !isDir(s.Path) {
		if err := checkTarball(s); err != nil {
			return err
		}
		write, of = func(w io.Writer) error { return copyTarball(ctx, w, s.Path, name, o.Progress) }, "a tarball"
	}
	packed, err := blob.PackLayer(packLevel, write)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
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
	layers := []v1.Descriptor{{MediaType: types.OCILayer, Size: packed.PackedSize, Digest: packed.PackedDigest}}
	img, err := madeImage(types.OCIManifestSchema1, layers, config, nil)
	if err != nil {
		return err
	}
	img.layers, s.Path = []v1.Layer{packed}, ""
	return s.take(img, o)
}

// MayBeInLayer returns an error for the name of a file that would hide another one if it were in a layer.
func MayBeInLayer(name string) error {
	if !strings.HasPrefix(path.Base(name), whiteoutPrefix) {
		return nil
	}
	return hinterr.Errorf(hinterr.ErrUnsupported, "%s: in a layer, a name that begins with %s hides files", name, whiteoutPrefix)
}

// copyTarball copies the tar stream of a tarball, byte for byte, and checks that each member can be in a layer.
func copyTarball(ctx context.Context, w io.Writer, file, title string, p progress.Reporter) error {
	f, size, err := blob.OpenRegular(file)
	if err != nil {
		return err
	}
	defer f.Close()
	task := p.Start("read", title, size)
	defer task.Done()
	body, _, err := blob.Decompress(ctx, blob.Reading{Ctx: ctx, Reader: f, T: task})
	if err != nil {
		return err
	}
	defer body.Close()
	in := io.TeeReader(body, w)
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

// CheckRootDest returns an error if a root filesystem cannot be written to a directory, which must be missing or empty.
func CheckRootDest(dir string) error {
	empty, err := isEmpty(dir)
	if fi, is := os.Lstat(dir); is == nil && !fi.IsDir() { // a symlink would be replaced
		err = fmt.Errorf("%s: exists and is not a directory", dir)
	} else if err == nil && !empty {
		err = fmt.Errorf("%s: exists and is not empty", dir)
	}
	return hinterr.With(err, "name a directory that does not exist yet, or an empty one")
}

// isEmpty reports whether a directory is empty or missing.
func isEmpty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return len(entries) == 0, err
}

// ErrInside returns the error for an output that is inside its input.
func ErrInside(out, in string) error {
	return hinterr.With(fmt.Errorf("%s is inside %s, which is copied there", out, in), "name a directory outside of it")
}

// Inside reports whether name, which need not exist, is in the directory dir.
func Inside(dir, name string) bool {
	paths := [...]string{dir, filepath.Dir(filepath.Clean(name))}
	for i, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			paths[i], err = filepath.Abs(real)
		}
		if err != nil {
			return false
		}
	}
	rel, err := filepath.Rel(paths[0], paths[1])
	return err == nil && filepath.IsLocal(rel)
}
