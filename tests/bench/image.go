package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The images of the benchmark are made of this machine's own /usr, as that is what programs
// and libraries look like, and a library with call sites.

// content is what an image or some layers of it have: the regular files of /usr in the order
// of their names, without the first skip bytes of them, until it is size bytes; and behind
// them the library with call sites, which is a file of this machine; "" for none. No file is
// larger than an eighth of size, so that contents whose skip is size apart begin differently.
type content struct {
	skip, size int64
	library    string
}

// stubs is the library with call sites.
func (b *bench) stubs() (string, error) {
	path := filepath.Join(b.dir, "stubs.so")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, writeStubs(path)
}

// madeLayers are layers and what is in them.
type madeLayers struct {
	layers []v1.Layer
	files  int
	bytes  int64 // of their tars
}

// plainLayer is a layer of a tar, compressed when it is written.
func plainLayer(path string) (v1.Layer, error) { return tarball.LayerFromFile(path) }

// makeLayers writes content as tars called NAME0.tar and on, of about the same size, each of which
// layerOf makes a layer of.
func makeLayers(name string, c content, layers int, layerOf func(tar string) (v1.Layer, error)) (*madeLayers, error) {
	w := &tarWriter{name: name, most: layers, each: c.size/int64(layers) + 1}
	err := walkUsr(c.skip, c.size, func(path string, info fs.FileInfo) error {
		return w.add(path, path[1:], info)
	})
	if err == nil && w.written == 0 {
		err = fmt.Errorf("/usr has not more than %d MB of files", c.skip/1e6)
	}
	if err == nil && c.library != "" {
		var info fs.FileInfo
		if info, err = os.Stat(c.library); err == nil {
			err = w.add(c.library, "usr/lib/"+filepath.Base(c.library), info)
		}
	}
	if err == nil {
		err = w.finish()
	}
	made := &madeLayers{files: w.files}
	for _, path := range w.paths {
		if err != nil {
			break
		}
		var info fs.FileInfo
		if info, err = os.Stat(path); err != nil {
			break
		}
		made.bytes += info.Size()
		var layer v1.Layer
		layer, err = layerOf(path)
		made.layers = append(made.layers, layer)
	}
	return made, err
}

// walkUsr calls add for regular files of /usr: none of the first skip bytes of them, and
// then until there were size bytes.
func walkUsr(skip, size int64, add func(path string, info fs.FileInfo) error) error {
	var seen int64
	return filepath.WalkDir("/usr", func(path string, d fs.DirEntry, err error) error {
		if seen >= skip+size {
			return fs.SkipAll
		}
		if err != nil || !d.Type().IsRegular() {
			return nil // unreadable files are not part of the images
		}
		info, err := d.Info()
		if err != nil || info.Size() > size/8 {
			return nil
		}
		if seen += info.Size(); seen-info.Size() < skip {
			return nil
		}
		return add(path, info)
	})
}

// tarWriter spreads files over tars.
type tarWriter struct {
	name    string // of the tars, without number and suffix
	most    int    // tars
	each    int64  // bytes of files after which the next tar begins
	paths   []string
	files   int
	written int64
	out     *os.File
	tw      *tar.Writer
}

func (w *tarWriter) add(path, name string, info fs.FileInfo) error {
	if want := min(int(w.written/w.each), w.most-1); len(w.paths) <= want {
		if err := w.finish(); err != nil {
			return err
		}
		f, err := os.Create(fmt.Sprintf("%s%d.tar", w.name, len(w.paths)))
		if err != nil {
			return err
		}
		w.out, w.tw = f, tar.NewWriter(f)
		w.paths = append(w.paths, f.Name())
	}
	header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime().Truncate(time.Second)}
	if err := w.tw.WriteHeader(header); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(w.tw, f)
	w.written += n
	w.files++
	return err
}

// finish ends the tar that is being written.
func (w *tarWriter) finish() error {
	if w.tw == nil {
		return nil
	}
	if err := w.tw.Close(); err != nil {
		return err
	}
	return w.out.Close()
}

// assemble makes an image for linux/amd64 of layers; the label makes it another one than
// those of the same layers.
func assemble(label string, layers ...v1.Layer) (v1.Image, error) {
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Config.Labels = map[string]string{"image": label}
	return mutate.ConfigFile(img, config)
}

// addImage writes an image to a layout, under a name.
func addImage(to layout.Path, name string, img v1.Image) error {
	return to.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": name}))
}
