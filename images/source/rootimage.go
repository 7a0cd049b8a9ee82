// Bare root filesystems, a directory or a tarball such as 'docker export' writes, as images of one layer.

package source

import (
	"archive/tar"
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/internal/xattrs"
)

// WithRootImage adds an image to a source that is a bare root filesystem. Such an image has only files: its command
// must come from the user. It errs for sources other than directories and tarballs.
func WithRootImage(ctx context.Context, s *Source, o Options) error {
	o = o.WithDefaults()
	write, of := copyTarball, "a tarball"
	if isDir(s.Path) {
		write, of = writeDirTar, "a directory"
	} else if tarball, err := MaybeTar(s.Path); err != nil || !tarball {
		if err == nil {
			err = hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%v: not an image", s.Ref),
				"patch files, directories and tarballs with: vfix patch -o OUTPUT %s", quote.Path(s.Path))
		}
		return err
	}
	o.Progress.Note("%s is a root filesystem: it becomes an image with one layer", s.Path)
	task := o.Progress.Start("read", s.Path, -1)
	packed, err := blob.PackLayer(packLevel, func(w io.Writer) error { return write(ctx, w, s.Path, task) })
	task.Done()
	if err != nil {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	s.AtEnd(func() error { packed.Close(); return nil })
	config, err := jsonobject.Encode(map[string]any{
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
	if err != nil {
		return err
	}
	if err := s.take(img, o); err != nil {
		return err
	}
	s.Path = ""
	return nil
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

// errHidden is the error for a file that would hide another one if it were in a layer.
func errHidden(name string) error {
	return hinterr.Errorf(hinterr.ErrUnsupported, "%s: in a layer, a name that begins with %s hides files", name, whiteoutPrefix)
}

// copyTarball copies the tar stream of a tarball, byte for byte, and checks that each member can be in a layer.
func copyTarball(ctx context.Context, w io.Writer, name string, task progress.Task) error {
	f, _, err := blob.OpenRegular(name)
	if err != nil {
		return err
	}
	defer f.Close()
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
		if strings.HasPrefix(path.Base(m.Path), whiteoutPrefix) {
			return errHidden(m.Path)
		}
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// writeDirTar writes a directory as a tar stream: sorted by name, with owners, modes, times, extended attributes and
// hard links. It omits sockets, and mounts in the directory.
func writeDirTar(ctx context.Context, w io.Writer, dir string, task progress.Task) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	d := &dirTar{root: root, tw: tar.NewWriter(w), links: map[inode]string{}, ctx: ctx, task: task}
	if err := fs.WalkDir(root.FS(), ".", d.add); err != nil {
		return err
	}
	return d.tw.Close()
}

type dirTar struct {
	root   *os.Root
	tw     *tar.Writer
	device uint64 // of the top directory
	links  map[inode]string
	ctx    context.Context
	task   progress.Task
}

type inode struct{ device, number uint64 }

func (d *dirTar) add(name string, e fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	fi, err := d.root.Lstat(name)
	if err != nil {
		return err
	}
	st := fi.Sys().(*syscall.Stat_t)
	if name == "." {
		d.device = uint64(st.Dev)
	}
	switch {
	case uint64(st.Dev) != d.device && fi.IsDir():
		return fs.SkipDir
	case uint64(st.Dev) != d.device, fi.Mode().Type() == fs.ModeSocket:
		return nil
	case strings.HasPrefix(path.Base(name), whiteoutPrefix):
		return errHidden(name)
	}
	target := ""
	if fi.Mode().Type() == fs.ModeSymlink {
		if target, err = d.root.Readlink(name); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(fi, target)
	if err != nil {
		return err
	}
	h.Name, h.Format = name, tar.FormatPAX
	h.Uname, h.Gname = "", ""
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	if fi.IsDir() {
		h.Name = strings.TrimPrefix(name+"/", "./")
		if h.Name == "" {
			h.Name = "./"
		}
	}
	at := inode{uint64(st.Dev), st.Ino}
	if first, linked := d.links[at]; linked && !fi.IsDir() {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		return d.tw.WriteHeader(h)
	}
	if st.Nlink > 1 {
		d.links[at] = name
	}
	if !fi.Mode().IsRegular() && !fi.IsDir() {
		return d.tw.WriteHeader(h)
	}
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if h.PAXRecords, err = xattrRecords(f); err != nil {
		return err
	}
	if err := d.tw.WriteHeader(h); err != nil || fi.IsDir() {
		return err
	}
	_, err = blob.CopyTo(d.ctx, d.tw, f, d.task)
	return err
}

// xattrRecords are the extended attributes of a file as a layer has them.
func xattrRecords(f *os.File) (map[string]string, error) {
	names, err := xattrs.List(int(f.Fd()))
	if err != nil { // the file system has none
		return nil, nil
	}
	records := map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(name, "system.") { // ACLs of this machine
			continue
		}
		value, err := xattrs.Get(int(f.Fd()), name)
		if err != nil {
			return nil, err
		}
		records[blob.XattrPrefix+name] = string(value)
	}
	return records, nil
}
