package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// imageLayers is how many layers the image of the benchmark has.
const imageLayers = 4

// rebuild measures `vfix rebuild` of an image of about size bytes against decompressing its
// layers, with the decompressor that vfix chooses, and the memory that it takes.
func (b *bench) rebuild(size int64) error {
	dir := filepath.Join(b.dir, "image")
	blobs, made, err := b.makeImage(dir, size)
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
	for i := range b.rounds {
		start := time.Now()
		for _, blob := range blobs {
			if err := exec.Command(decompressor[0], append(decompressor[1:], blob)...).Run(); err != nil {
				return fmt.Errorf("%s %s: %w", decompressor[0], blob, err)
			}
		}
		decompressing = append(decompressing, time.Since(start).Seconds())
		run, err := b.timed("rebuild", "oci:"+dir+":base", "-o", fmt.Sprintf("oci:%s:out%d", dir, i))
		if err != nil {
			return err
		}
		rebuilding = append(rebuilding, run.seconds)
		memory = max(memory, run.memory)
	}
	fmt.Printf("Rebuild: %.2f GB in %d gzip layers: %.2f times as long as %s alone (median of %d pairs); peak memory %d MiB\n\n",
		float64(made.bytes)/1e9, len(blobs), ratio(rebuilding, decompressing), filepath.Base(decompressor[0]), b.rounds, memory>>10)
	return nil
}

// makeImage writes an image of this machine's own /usr and, as its last file, the library
// that the calls are measured with. It returns the paths of the layers' blobs.
func (b *bench) makeImage(dir string, size int64) (blobs []string, made *madeLayers, err error) {
	return b.makeImageOf(dir, size, plainLayer)
}

func (b *bench) makeImageOf(dir string, size int64, layer func(tar string) (v1.Layer, error)) (blobs []string, made *madeLayers, err error) {
	library, err := b.stubs()
	if err != nil {
		return nil, nil, err
	}
	if made, err = makeLayers(filepath.Join(b.dir, "layer"), content{size: size, library: library}, imageLayers, layer); err != nil {
		return nil, nil, err
	}
	img, err := assemble("base", made.layers...)
	if err != nil {
		return nil, nil, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, nil, err
	}
	if err := addImage(path, "base", img); err != nil {
		return nil, nil, err
	}
	for _, l := range made.layers {
		digest, err := l.Digest()
		if err != nil {
			return nil, nil, err
		}
		blobs = append(blobs, filepath.Join(dir, "blobs", digest.Algorithm, digest.Hex))
	}
	return blobs, made, nil
}

// vfixRun is a run of vfix that ended well.
type vfixRun struct {
	stdout  []byte
	seconds float64
	// memory is the peak of its resident memory in KiB (wait4(2), getrusage(2) ru_maxrss): of
	// vfix or, if that took more, of the largest decompressor that it started.
	memory int64
}

// timed runs the measured vfix.
func (b *bench) timed(args ...string) (*vfixRun, error) { return timed(b.vfix, args...) }

// timed runs a vfix without progress.
func timed(vfix string, args ...string) (*vfixRun, error) {
	cmd := exec.Command(vfix, append(args, "--progress", "quiet")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("vfix %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return &vfixRun{out, time.Since(start).Seconds(), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss}, nil
}
