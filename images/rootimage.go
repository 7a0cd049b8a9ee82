package images

import (
	"archive/tar"
	"bufio"
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
)

// Bare root filesystems as images of one layer: what docker export writes, a folder, what is
// inside a SIF file. Of such an image nothing but its files is known, so that it has no
// command but one that the user gives (RunConfig).

// RunConfig is how an image is run, where its source does not say.
type RunConfig struct {
	Entrypoint, Cmd []string
	Env             []string // NAME=VALUE
	WorkingDir      string
	User            string
}

// config makes the image config; the same files and choices give the same bytes.
func (r RunConfig) config(diffID v1.Hash, of string) ([]byte, error) {
	run := members{}
	for key, list := range map[string][]string{"Entrypoint": r.Entrypoint, "Cmd": r.Cmd, "Env": r.Env} {
		if len(list) > 0 {
			run[key], _ = encode(list)
		}
	}
	for key, value := range map[string]string{"WorkingDir": r.WorkingDir, "User": r.User} {
		if value != "" {
			run[key], _ = encode(value)
		}
	}
	return encode(map[string]any{
		"architecture": "amd64", "os": "linux", "config": run,
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{diffID.String()}},
		"history": []map[string]string{{"created_by": "vfix: the files of " + of}},
	})
}

func (r RunConfig) isZero() bool {
	return len(r.Entrypoint) == 0 && len(r.Cmd) == 0 && len(r.Env) == 0 && r.WorkingDir == "" && r.User == ""
}

// withRootImage makes a source that is a bare root filesystem one with an image. The caller
// closes it as before. What is neither a folder nor a tarball is an error.
func withRootImage(ctx context.Context, s *Source, run RunConfig, o MediaOptions) error {
	o = o.withDefaults()
	fi, err := os.Stat(s.Path)
	if err != nil {
		return err
	}
	write, of := writeFolder, "a folder"
	if !fi.IsDir() {
		tarball, err := isTarball(s.Path)
		if err != nil {
			return err
		}
		if !tarball {
			return withHint(errorf(ErrUnsupported, "%v: not an image", s.Ref),
				"patch files, folders and tarballs with: vfix patch -o OUTPUT %s", s.Path)
		}
		write, of = copyTarball, "a tarball"
	}
	note(o.Progress, "%s is a root filesystem: an image of one layer is made of it", s.Path)
	layer, err := packLayer(func(w io.Writer) error { return wrapPath(s.Path, write(ctx, w, s.Path, o)) })
	if err != nil {
		return err
	}
	img, err := layerImage(layer, run, of)
	if err == nil {
		err = s.take(img, o)
	}
	if err != nil {
		layer.Close()
		return err
	}
	closeSource := s.Close
	s.Close = func() error {
		layer.Close()
		return closeSource()
	}
	s.Path = ""
	return nil
}

// layerImage makes an OCI image of one layer.
func layerImage(l *addedLayer, run RunConfig, of string) (*storedImage, error) {
	config, err := run.config(l.diffID, of)
	if err != nil {
		return nil, err
	}
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Layers: []v1.Descriptor{{MediaType: types.OCILayer, Size: l.size, Digest: l.digest}},
	}
	return madeImage(m, config, oneLayer{l})
}

// oneLayer are the blobs of such an image.
type oneLayer struct{ l *addedLayer }

func (o oneLayer) open(h v1.Hash) (io.ReadCloser, int64, error) {
	if h != o.l.digest {
		return nil, 0, errorf(ErrNotFound, "no blob %v", h)
	}
	return io.NopCloser(o.l.reader()), o.l.size, nil
}

// errHidden: a file whose name hides another one, once it is in a layer.
func errHidden(name string) error {
	return errorf(ErrUnsupported, "%s: in a layer a name with %s in front hides files", name, whiteoutPrefix)
}

// copyTarball copies the tar stream of a tarball, byte for byte, and looks at each member:
// what cannot be in a layer is an error.
func copyTarball(ctx context.Context, w io.Writer, name string, o MediaOptions) error {
	f, size, err := openRegular(name)
	if err != nil {
		return err
	}
	defer f.Close()
	task := o.Progress.Start("read", name, size)
	defer task.Done()
	body, _, err := decompress(ctx, reading{ctx, f, task})
	if err != nil {
		return err
	}
	defer body.Close()
	in := bufio.NewReaderSize(io.TeeReader(body, w), copyBuffer)
	for tr := newMemberReader(in); ; {
		m, err := tr.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(path.Base(m.name), whiteoutPrefix) {
			return errHidden(m.name)
		}
	}
	_, err = copyTo(ctx, io.Discard, in, nil)
	return err
}

// writeFolder writes a folder as a tar stream: sorted by name, with owners, modes, times,
// extended attributes and hard links. Sockets are left out, and what is mounted in it.
func writeFolder(ctx context.Context, w io.Writer, name string, o MediaOptions) error {
	d, err := openDiskTree(name)
	if err != nil {
		return err
	}
	defer d.Close()
	task := o.Progress.Start("read", name, -1)
	defer task.Done()
	d.noSums = true
	entries, err := d.entries(ctx)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	for i := range entries {
		e := &entries[i]
		if e.name == "" {
			continue // the root itself: engines make it
		}
		if strings.HasPrefix(path.Base(e.name), whiteoutPrefix) {
			return errHidden(e.name)
		}
		if err := d.writeEntry(ctx, tw, e, task); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return tw.Close()
}

// writeEntry writes one file of a folder.
func (f *diskTree) writeEntry(ctx context.Context, tw *tar.Writer, e *entry, task Task) error {
	hdr := e.meta.header(e.name)
	switch e.kind {
	case kindDir:
		return tw.WriteHeader(dirHeader(e.name, e))
	case kindSymlink:
		hdr.Typeflag, hdr.Linkname = tar.TypeSymlink, e.link
		return tw.WriteHeader(hdr)
	case kindHardLink:
		hdr.Typeflag, hdr.Linkname = tar.TypeLink, e.link
		return tw.WriteHeader(hdr)
	case kindOther:
		hdr.Typeflag, hdr.Devmajor, hdr.Devminor = e.flag, e.meta.major, e.meta.minor
		return tw.WriteHeader(hdr)
	}
	r, err := f.root.OpenFile(filepath.FromSlash(e.name), os.O_RDONLY|openNoBlock, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	hdr.Typeflag, hdr.Size = tar.TypeReg, e.size
	if err := tw.WriteHeader(hdr); err != nil {
		return err
	}
	n, err := copyTo(ctx, tw, io.LimitReader(r, e.size), task)
	if err == nil && n != e.size {
		err = errors.New("became shorter while it was read")
	}
	return err
}

// deviceFlag is the tar type flag of what is no file, folder or symlink.
func deviceFlag(t fs.FileMode) byte {
	switch {
	case t&fs.ModeNamedPipe != 0:
		return tar.TypeFifo
	case t&fs.ModeCharDevice != 0:
		return tar.TypeChar
	}
	return tar.TypeBlock
}
