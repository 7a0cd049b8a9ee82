package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/host/rootfs"
)

// curves are the causes of growth.
func (b *bench) curves() []curve {
	rebuild := []string{"seconds", "memory/MiB"}
	return []curve{
		{name: "size", title: "Rebuild over the size of the image", cause: "MB", costs: rebuild, at: []float64{60, 250, 1000, 4000}, place: func(mb float64) (place, error) {
			return b.rebuildPlace(func(dir string) (float64, error) {
				_, made, err := b.makeImageOf(dir, int64(mb*1e6), compressed)
				if err != nil {
					return 0, err
				}
				return float64(made.bytes) / 1e6, nil
			})
		}},
		{name: "files", title: "Rebuild over the number of files", cause: "files", costs: rebuild, at: []float64{1e3, 1e4, 1e5, 3e5}, place: func(files float64) (place, error) {
			return b.rebuildPlace(func(dir string) (float64, error) { return files, b.makeManyFiles(dir, int(files)) })
		}},
		{name: "scan", title: "Scan of a directory over its bytes", cause: "MB", costs: rebuild, at: []float64{125, 250, 500, 1000, 2000}, place: b.scanPlace},
		{name: "rootfiles", title: "Start over the files of the root, a directory", cause: "files", costs: []string{"milliseconds"}, at: []float64{1e3, 4e3, 16e3, 64e3}, place: b.startFiles},
		{name: "layers", title: "Start over the layers of the root, an overlay", cause: "layers", costs: []string{"milliseconds"}, at: []float64{1, 2, 4, 8, 16, 32}, place: b.startLayers},
		b.batchCurve("images", "Batch over the images, on 5 bases", []float64{10, 20, 40, 80}, func(n int) many { return many{images: n, bases: 5} }),
		b.batchCurve("bases", "Batch of 40 images over their bases", []float64{1, 4, 16}, func(n int) many { return many{images: 40, bases: n} }),
	}
}

// missing says what a curve needs and this machine has not.
func (b *bench) missing(name string) string {
	need := map[string]string{"rootfiles": "runc", "layers": "runc", "images": "docker-registry", "bases": "docker-registry"}[name]
	if need == "runc" && os.Geteuid() != 0 {
		return "it takes root"
	}
	if _, err := exec.LookPath(need); need != "" && err != nil {
		return need + " is not installed"
	}
	return ""
}

// rebuildPlace measures rebuilding an image that is made in dir.
func (b *bench) rebuildPlace(makeIn func(dir string) (float64, error)) (place, error) {
	dir := filepath.Join(b.dir, "grown")
	at, err := makeIn(dir)
	return place{at, func(program string) ([]float64, error) {
		run, err := timed(program, "rebuild", "oci:"+dir+":base", "-o", "oci:"+dir+":out")
		return costsOf(run), err
	}, func() error { return os.RemoveAll(dir) }}, err
}

func costsOf(run *vfixRun) []float64 {
	if run == nil {
		return nil
	}
	return []float64{run.seconds, float64(run.memory) / 1024}
}

// compressed is a layer of a tar that igzip has compressed: what compresses by Go takes minutes.
func compressed(path string) (v1.Layer, error) {
	if err := exec.Command("igzip", "-f", path, "-o", path+".gz").Run(); err != nil {
		return nil, fmt.Errorf("igzip %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil { // the largest image has 4 GB
		return nil, err
	}
	return tarball.LayerFromFile(path + ".gz")
}

// makeManyFiles writes an image of small files in one layer, with the library with call sites.
func (b *bench) makeManyFiles(dir string, files int) error {
	library, err := b.stubs()
	if err != nil {
		return err
	}
	stubs, err := os.ReadFile(library)
	if err != nil {
		return err
	}
	path := filepath.Join(b.dir, "many.tar")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	tw := tar.NewWriter(f)
	add := func(name string, content []byte) error {
		err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), ModTime: time.Unix(0, 0)})
		if err == nil {
			_, err = tw.Write(content)
		}
		return err
	}
	for i := range files {
		if err := add(smallName(i), smallContent(i)); err != nil {
			return err
		}
	}
	if err := errors.Join(add("usr/lib/stubs.so", stubs), tw.Close()); err != nil {
		return err
	}
	layer, err := compressed(path)
	if err != nil {
		return err
	}
	img, err := assemble("base", layer)
	if err != nil {
		return err
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return addImage(to, "base", img)
}

// smallName and smallContent are file i of many: a hundred in a directory, a kilobyte of text each.
func smallName(i int) string { return fmt.Sprintf("srv/%d/%d/file%d", i/10000, i/100, i) }

func smallContent(i int) []byte {
	line := fmt.Appendf(nil, "line of file %d\n", i)
	return bytes.Repeat(line, 1024/len(line))
}

// scanPlace has the same files again and again: of a /usr, more bytes are more and smaller files, and
// those with addresses of the page are in one directory.
func (b *bench) scanPlace(mb float64) (place, error) {
	const each = 125
	root := filepath.Join(b.dir, "scanned")
	var size int64
	var err error
	for n := 0; n < int(mb/each) && err == nil; n++ {
		var more int64
		_, more, err = b.makeRoot(filepath.Join(root, fmt.Sprint(n)), each*1e6)
		size += more
	}
	return place{float64(size) / 1e6, func(program string) ([]float64, error) {
		run, err := timed(program, "scan", root)
		return costsOf(run), err
	}, func() error { return os.RemoveAll(root) }}, err
}

// layerRoot is where a layer of the root lies, with docker.
func (b *bench) layerRoot(n int) string {
	return filepath.Join(b.dir, "overlay2", fmt.Sprintf("%064x", n), "diff")
}

// writeSmall writes files from up to to below a root.
func writeSmall(root string, from, to int) error {
	for i := from; i < to; i++ {
		path := filepath.Join(root, smallName(i))
		if i == from || i%100 == 0 {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(path, smallContent(i), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) startFiles(files float64) (place, error) {
	root := b.layerRoot(0)
	err := errors.Join(writeSmall(root, 0, int(files)), writeStubs(filepath.Join(root, "stubs.so")))
	if err != nil {
		return place{}, err
	}
	return b.startPlace(files, root, "")
}

// startLayers has 8,000 files in all, and one with calls in the lowest layer.
func (b *bench) startLayers(layers float64) (place, error) {
	const files = 8000
	var lower []string
	for n := range int(layers) {
		root := b.layerRoot(n)
		if err := writeSmall(root, n*files/int(layers), (n+1)*files/int(layers)); err != nil {
			return place{}, err
		}
		lower = append(lower, root)
	}
	slices.Reverse(lower) // the uppermost is first
	if err := writeStubs(filepath.Join(b.layerRoot(0), "stubs.so")); err != nil {
		return place{}, err
	}
	return b.startPlace(layers, lower[0], strings.Join(lower, ":"))
}

// startPlace measures `create` through vfix-runtime, with everything in its cache, less that of the
// empty program which it executes in place of runc.
func (b *bench) startPlace(at float64, root, lower string) (place, error) {
	alone, err := b.empty()
	if err != nil {
		return place{}, err
	}
	s := &startup{b: b, real: alone, bundle: filepath.Join(b.dir, "bundle"), cache: filepath.Join(b.dir, "startup-cache"), lower: lower}
	if err := s.make(root); err != nil {
		return place{}, err
	}
	undo := func() error {
		return errors.Join(os.RemoveAll(s.bundle), os.RemoveAll(s.cache), os.RemoveAll(filepath.Join(b.dir, "overlay2")))
	}
	return place{at, func(program string) ([]float64, error) {
		time.Sleep(10 * rootfs.Settled) // until then, each start reads the directories again
		const starts = 25
		run := variant{vfix: true, command: []string{
			filepath.Join(filepath.Dir(program), "vfix-runtime"), "--runtime", s.real, "--fail-closed", "--cache-dir", filepath.Join(s.cache, fmt.Sprintf("%x", program)),
		}}
		var added []float64
		for range starts {
			with, err := s.start(run)
			if err != nil {
				return nil, err
			}
			without, err := s.start(variant{command: []string{s.real}})
			if err != nil {
				return nil, err
			}
			added = append(added, with[0]-without[0])
		}
		return []float64{median(added)}, nil
	}, undo}, nil
}

// batchCurve measures one run over a list of images in a registry.
func (b *bench) batchCurve(name, title string, at []float64, of func(n int) many) curve {
	var r *registry
	dir := filepath.Join(b.dir, "registry-"+name)
	c := curve{name: name, title: title, cause: name, costs: []string{"seconds", "processor/s", "requests", "read/MB", "pushed/MB"}, at: at}
	c.begin = func() (err error) {
		r, err = startRegistry(dir)
		return err
	}
	c.end = func() { r.stop(); os.RemoveAll(dir) }
	c.place = func(want float64) (place, error) {
		m := of(int(want))
		m.baseBytes, m.ownBytes, m.path = 20e6, 1e6, fmt.Sprintf("old%.0f", want)
		n := 0
		return place{want, func(program string) ([]float64, error) {
			n++
			cost, err := b.rebuildListed(program, m, r, r, fmt.Sprintf("listed%.0f-%d", want, n))
			if err != nil {
				return nil, err
			}
			return []float64{cost.seconds, cost.processor, float64(cost.requests), float64(cost.read) / 1e6, float64(cost.pushed) / 1e6}, nil
		}, nil}, b.fillRegistry(r, m)
	}
	return c
}
