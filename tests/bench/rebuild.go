package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// imageLayers is how many layers the image of the benchmark has.
const imageLayers = 4

// rebuild measures `vfix rebuild` of an image of about size bytes, and with an earlier vfix, if given, in turn with
// decompressing its layers by the decompressor that vfix chooses, and the memory that they take.
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
	names, programs := []string{filepath.Base(decompressor[0]), "vfix"}, []string{"", b.vfix}
	if b.before != "" {
		names, programs = append(names, "before"), append(programs, b.before)
	}
	if err := forgetPeak(); err != nil {
		return err
	}
	took, processor, memory := make([][]float64, len(names)), make([][]float64, len(names)), make([]int64, len(names))
	for i := range b.rounds {
		for n, program := range programs {
			var runs []*vfixRun
			if program == "" {
				for _, blob := range blobs {
					run, err := timedCommand(nil, decompressor[0], append(decompressor[1:], blob)...)
					if err != nil {
						return err
					}
					runs = append(runs, run)
				}
			} else {
				run, err := timed(program, "rebuild", "oci:"+dir+":base", "-o", fmt.Sprintf("oci:%s:out%d-%d", dir, i, n))
				if err != nil {
					return err
				}
				runs = append(runs, run)
			}
			took[n], processor[n] = append(took[n], 0), append(processor[n], 0)
			for _, run := range runs {
				took[n][i] += run.seconds
				processor[n][i] += run.processor
				memory[n] = max(memory[n], run.memory)
			}
		}
	}
	fmt.Printf("Rebuild: %.2f GB in %d gzip layers, and decompressing them alone; minimum and median, of memory the most\n", float64(made.bytes)/1e9, len(blobs))
	fmt.Printf("%-10s %16s %7s %16s %7s %12s %7s\n", "program", "time/s", "ratio", "processor/s", "ratio", "memory/MiB", "rounds")
	for n, name := range names {
		fmt.Printf("%-10s %7.2f %8.2f %7.2f %7.2f %8.2f %7.2f %12d %7d\n", name, slices.Min(took[n]), median(took[n]), ratio(took[n], took[0]),
			slices.Min(processor[n]), median(processor[n]), ratio(processor[n], processor[0]), memory[n]>>10, b.rounds)
	}
	fmt.Println()
	return nil
}

// unpack measures the same image as a directory: as it is, by vfix convert, and patched, by vfix rebuild;
// with an earlier vfix in turn, if given.
func (b *bench) unpack(size int64) error {
	dir, out := filepath.Join(b.dir, "unpacked"), filepath.Join(b.dir, "directory")
	_, made, err := b.makeImage(dir, size)
	if err != nil {
		return err
	}
	programs := []string{b.vfix}
	if b.before != "" {
		programs = append(programs, b.before)
	}
	fmt.Printf("As a directory: %.2f GB in %d gzip layers; minimum and median, of memory the most\n", float64(made.bytes)/1e9, imageLayers)
	fmt.Printf("%-10s %-8s %16s %16s %12s %7s\n", "verb", "program", "time/s", "processor/s", "memory/MiB", "rounds")
	for _, verb := range [][]string{{"convert"}, {"rebuild", "--provenance", "none"}} {
		if err := forgetPeak(); err != nil {
			return err
		}
		took, processor, memory := make([][]float64, len(programs)), make([][]float64, len(programs)), make([]int64, len(programs))
		for range b.rounds {
			for i, program := range programs {
				run, err := timed(program, append(verb, "oci:"+dir+":base", "-o", "dir:"+out)...)
				if err != nil {
					return err
				}
				took[i], processor[i] = append(took[i], run.seconds), append(processor[i], run.processor)
				memory[i] = max(memory[i], run.memory)
				if err := os.RemoveAll(out); err != nil {
					return err
				}
			}
		}
		for i := range programs {
			fmt.Printf("%-10s %-8s %7.1f %8.1f %7.1f %8.1f %12d %7d\n", verb[0], []string{"vfix", "before"}[i],
				slices.Min(took[i]), median(took[i]), slices.Min(processor[i]), median(processor[i]), memory[i]>>10, b.rounds)
		}
	}
	fmt.Println()
	return os.RemoveAll(dir)
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
	// processor is the seconds of processors that it took, with what it started.
	processor float64
	// memory is the peak of its resident memory in KiB (wait4(2), getrusage(2) ru_maxrss): of
	// vfix or, if that took more, of the largest decompressor that it started.
	memory int64
}

// timed runs the measured vfix.
func (b *bench) timed(args ...string) (*vfixRun, error) { return timed(b.vfix, args...) }

// timed runs a vfix without progress.
func timed(vfix string, args ...string) (*vfixRun, error) {
	var stdout bytes.Buffer
	run, err := timedCommand(&stdout, vfix, append(args, "--progress", "quiet")...)
	if err == nil {
		run.stdout = stdout.Bytes()
	}
	return run, err
}

// incomplete is vfix's exit status for directories that need libraries of elsewhere, as those of the benchmark do.
const incomplete = 4

// timedCommand runs a command; stdout may be nil.
func timedCommand(stdout io.Writer, name string, args ...string) (*vfixRun, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	start := time.Now()
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != incomplete {
		return nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, stderr.Bytes())
	}
	took, state := time.Since(start).Seconds(), cmd.ProcessState
	return &vfixRun{nil, took, (state.UserTime() + state.SystemTime()).Seconds(), state.SysUsage().(*syscall.Rusage).Maxrss}, nil
}
