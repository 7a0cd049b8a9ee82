// Rebuilds of an image in a layout and in a registry on loopback.

package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// affected is a library with call sites, which the image has beside this machine's files.
const affected = "tests/build/fixtures/libstubs.so"

// imageLayers is how many layers the image of the benchmark has.
const imageLayers = 4

// rebuild compares rebuilds with decompressing the layers alone.
func (b *bench) rebuild() error {
	dir := filepath.Join(b.dir, "image")
	blobs, err := b.makeImage(dir)
	if err != nil {
		return err
	}
	commands := b.variants(func(vfix, name string) command {
		out := filepath.Join(b.dir, "out")
		return command{name: name, args: []string{vfix, "rebuild", "oci:" + dir + ":base", "-o", "oci:" + out + ":x"},
			after: func() error { return os.RemoveAll(out) }}
	})
	decompress := "gzip -dc"
	if _, err := exec.LookPath("igzip"); err == nil {
		decompress = "igzip -dc"
	}
	script := fmt.Sprintf("for blob in %s; do %s <$blob >/dev/null || exit; done", strings.Join(blobs, " "), decompress)
	title := fmt.Sprintf("A rebuild of %d MB in %d layers within a layout", b.size/1e6, imageLayers)
	if err := b.compare(title, append(commands, command{name: decompress, args: []string{"sh", "-c", script}})...); err != nil {
		return err
	}
	return b.rebuildInRegistry(dir)
}

// rebuildInRegistry compares rebuilds from a registry on loopback to itself.
func (b *bench) rebuildInRegistry(dir string) error {
	blobs := filepath.Join(b.dir, "registry")
	if err := os.Mkdir(blobs, 0o700); err != nil {
		return err
	}
	server := httptest.NewServer(registry.New(
		registry.Logger(log.New(io.Discard, "", 0)),
		registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	// The base and the results are separate repositories, so that each push is a whole one.
	n := 0
	commands := b.variants(func(vfix, name string) command {
		c := command{name: name, args: []string{vfix, "rebuild", "docker://" + host + "/base:1", "-o", ""}}
		c.before = func() error {
			n++
			c.args[4] = fmt.Sprintf("docker://%s/out%d:1", host, n)
			return nil
		}
		return c
	})
	push := exec.Command(b.vfix, "rebuild", "oci:"+dir+":base", "-o", "docker://"+host+"/base:1")
	if out, err := push.CombinedOutput(); err != nil {
		return fmt.Errorf("pushing the base: %w: %s", err, out)
	}
	return b.compare("The same in a registry on this machine", commands...)
}

// makeImage writes an image of this machine's /usr into a layout and returns the paths of its layers.
func (b *bench) makeImage(dir string) (blobs []string, err error) {
	img := empty.Image
	walked := &tree{limit: b.size / imageLayers}
	if err := walked.list("/usr"); err != nil {
		return nil, err
	}
	walked.paths = append([]string{affected}, walked.paths...)
	for n := range imageLayers {
		name := filepath.Join(b.dir, fmt.Sprintf("layer%d.tar", n))
		if err := walked.writeLayer(name); err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromFile(name)
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, filepath.Join(dir, "blobs", digest.Algorithm, digest.Hex))
	}
	if img, err = mutate.ConfigFile(img, withPlatform(img)); err != nil {
		return nil, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, err
	}
	return blobs, path.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "base"}))
}

func withPlatform(img v1.Image) *v1.ConfigFile {
	config, err := img.ConfigFile()
	if err != nil {
		panic(err) // an image in memory
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	return config
}

// tree hands out the regular files below a directory, layer by layer.
type tree struct {
	paths []string
	limit int64 // bytes a layer
}

func (t *tree) list(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			t.paths = append(t.paths, path)
		}
		return nil // what cannot be read is not in the image
	})
}

// writeLayer writes the next files as a tar archive.
func (t *tree) writeLayer(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	for total := int64(0); len(t.paths) > 0 && total < t.limit; t.paths = t.paths[1:] {
		data, err := os.ReadFile(t.paths[0])
		if err != nil {
			continue
		}
		total += int64(len(data))
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(t.paths[0], "/"), Mode: 0o755, Size: int64(len(data))}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return w.Close()
}
