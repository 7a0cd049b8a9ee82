package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// imageLayers is how many layers the image of the benchmark has.
const imageLayers = 4

// rebuild measures `vfix rebuild` of an image of about size bytes against decompressing its
// layers, with the decompressor that vfix chooses, and the memory that it takes.
func (b *bench) rebuild(size int64) error {
	dir := filepath.Join(b.dir, "image")
	blobs, uncompressed, err := makeImage(dir, b.dir, size)
	if err != nil {
		return err
	}
	decompressor := []string{"gzip", "-dc"}
	for _, name := range []string{"igzip", "unpigz"} {
		if path, err := exec.LookPath(name); err == nil {
			decompressor = []string{path, "-d", "-c"}
			break
		}
	}
	var rebuilding, decompressing []float64
	var memory int64
	for i := range 3 {
		start := time.Now()
		for _, blob := range blobs {
			if err := exec.Command(decompressor[0], append(decompressor[1:], blob)...).Run(); err != nil {
				return fmt.Errorf("%s %s: %w", decompressor[0], blob, err)
			}
		}
		decompressing = append(decompressing, time.Since(start).Seconds())
		cmd := exec.Command(b.vfix, "rebuild", "--progress", "quiet", "oci:"+dir+":base", "-o", fmt.Sprintf("oci:%s:out%d", dir, i))
		cmd.Stderr = os.Stderr
		start = time.Now()
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("vfix rebuild: %w", err)
		}
		rebuilding = append(rebuilding, time.Since(start).Seconds())
		memory = max(memory, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) // KiB
	}
	fmt.Printf("Rebuild: %.2f GB in %d gzip layers: %.2f times as long as %s alone (median of 3 pairs); peak memory %d MiB\n\n",
		float64(uncompressed)/1e9, len(blobs), ratio(rebuilding, decompressing), filepath.Base(decompressor[0]), memory>>10)
	return nil
}

// makeImage writes an image of this machine's own /usr and, as its last file, the library
// that the calls were measured with. It returns the paths of the layers' blobs.
func makeImage(dir, work string, size int64) (blobs []string, total int64, err error) {
	img := v1.Image(empty.Image)
	tars, err := writeTars(work, size)
	if err != nil {
		return nil, 0, err
	}
	for _, path := range tars {
		info, err := os.Stat(path)
		if err != nil {
			return nil, 0, err
		}
		total += info.Size()
		layer, err := tarball.LayerFromFile(path)
		if err != nil {
			return nil, 0, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, 0, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, 0, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, 0, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, 0, err
	}
	if err := path.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "base"})); err != nil {
		return nil, 0, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, 0, err
	}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return nil, 0, err
		}
		blobs = append(blobs, filepath.Join(dir, "blobs", digest.Algorithm, digest.Hex))
	}
	return blobs, total, nil
}

// writeTars spreads the files of /usr over imageLayers tars of size bytes together.
func writeTars(work string, size int64) ([]string, error) {
	var paths []string
	var tw *tar.Writer
	var out *os.File
	var written int64
	finish := func() error {
		if tw == nil {
			return nil
		}
		if err := tw.Close(); err != nil {
			return err
		}
		return out.Close()
	}
	add := func(path, name string, info fs.FileInfo) error {
		if want := int(written / (size/imageLayers + 1)); len(paths) <= want {
			if err := finish(); err != nil {
				return err
			}
			f, err := os.Create(filepath.Join(work, fmt.Sprintf("layer%d.tar", len(paths))))
			if err != nil {
				return err
			}
			out, tw = f, tar.NewWriter(f)
			paths = append(paths, f.Name())
		}
		header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime().Truncate(time.Second)}
		if err := tw.WriteHeader(header); err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.Copy(tw, f)
		written += n
		return err
	}
	err := filepath.WalkDir("/usr", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || written >= size {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		return add(path, path[1:], info)
	})
	if err != nil {
		return nil, err
	}
	stubs := filepath.Join(work, "stubs.so")
	info, err := os.Stat(stubs)
	if err != nil {
		return nil, err
	}
	if err := add(stubs, "usr/lib/stubs.so", info); err != nil {
		return nil, err
	}
	return paths, finish()
}
