package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"vfix.dev/vfix/rewriter/find"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The list of the benchmark: each image is a base, which five have, and a layer of its own.
const (
	batchImages = 50
	batchBases  = 10
	baseBytes   = 40e6 // in imageLayers layers
	ownBytes    = 2e6
)

// many is a list of images.
type many struct {
	path                string // below which they are in the registry
	images, bases       int
	baseBytes, ownBytes float64
}

// legacyLibc is the size in bytes of Debian 7's libc-2.13.so, the file that is patched in
// most images: the library with call sites is made as long, so that the layer that is sent
// has the size of a real one.
const legacyLibc = 1_595_408

// batch measures one `vfix rebuild --from-file` of images that share bases against one run
// for each of them: in the registry that they are in, and to another one.
func (b *bench) batch() error {
	old, err := startRegistry(filepath.Join(b.dir, "registry"))
	if errors.Is(err, errNoRegistry) {
		fmt.Printf("Many images: not measured: %v\n\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer old.stop()
	list := many{"old", batchImages, batchBases, baseBytes, ownBytes}
	if err := b.fillRegistry(old, list); err != nil {
		return err
	}
	other, err := startRegistry(filepath.Join(b.dir, "other"))
	if err != nil {
		return err
	}
	defer other.stop()
	fmt.Printf("Many images: %d over %d shared bases of %.0f MB, each with %.0f MB of its own; one list against %d single runs.\n",
		batchImages, batchBases, baseBytes/1e6, ownBytes/1e6, batchImages)
	fmt.Printf("%-28s %12s %12s %8s\n", "", "one list", "single runs", "ratio")
	for _, to := range []struct {
		name string
		r    *registry
	}{{"within the registry", old}, {"to another registry", other}} {
		var listed, alone *cost
		var together, apart, ratios []float64
		for round := range b.rounds {
			var err error
			if listed, err = b.rebuildListed(b.vfix, list, old, to.r, fmt.Sprintf("listed%d", round)); err != nil {
				return err
			}
			if alone, err = b.rebuildAlone(list, old, to.r, fmt.Sprintf("alone%d", round)); err != nil {
				return err
			}
			if !slices.Equal(listed.digests, alone.digests) {
				return errors.New("the list's images are not those of the single runs")
			}
			together, apart = append(together, listed.seconds), append(apart, alone.seconds)
			ratios = append(ratios, listed.seconds/alone.seconds)
		}
		fmt.Println(to.name)
		fmt.Printf("  %-26s %12.1f %12.1f %8.2f\n", "time/s, least", slices.Min(together), slices.Min(apart), slices.Min(together)/slices.Min(apart))
		fmt.Printf("  %-26s %12.1f %12.1f %8.2f\n", "time/s, median", median(together), median(apart), median(ratios))
		row := func(name, format string, a, b float64) {
			fmt.Printf("  %-26s "+format+" "+format+" %8.2f\n", name, a, b, a/b)
		}
		row("read/MB", "%12.1f", float64(listed.read)/1e6, float64(alone.read)/1e6)
		row("pushed/MB", "%12.1f", float64(listed.pushed)/1e6, float64(alone.pushed)/1e6)
		row("requests", "%12.0f", float64(listed.requests), float64(alone.requests))
		row("peak memory of a run/KiB", "%12.0f", float64(listed.memory), float64(alone.memory))
	}
	fmt.Println()
	return nil
}

// cost is what rebuilding all images took.
type cost struct {
	traffic
	seconds   float64
	processor float64  // seconds of vfix and igzip
	memory    int64    // KiB, of the run that took most
	digests   []string // of the results, in the order of the images
}

func (m many) source(from *registry, i int) string {
	return fmt.Sprintf("docker://%s/%s/image%d:1", from.host, m.path, i)
}

// rebuildListed rebuilds all images in one run of a program; path is where their results go.
func (b *bench) rebuildListed(program string, m many, from, to *registry, path string) (*cost, error) {
	var lines strings.Builder
	for i := range m.images {
		fmt.Fprintf(&lines, "%s docker://%s/%s/image%d:1\n", m.source(from, i), to.host, path, i)
	}
	list := filepath.Join(b.dir, "list")
	if err := os.WriteFile(list, []byte(lines.String()), 0o600); err != nil {
		return nil, err
	}
	return measureTraffic(from, to, func(c *cost) error {
		run, err := timed(program, "rebuild", "--format", "json", "--from-file", list)
		if err != nil {
			return err
		}
		var out struct {
			Images []struct{ Status, Digest string }
		}
		if err := json.Unmarshal(run.stdout, &out); err != nil {
			return err
		}
		for _, i := range out.Images {
			if i.Status != "done" {
				return fmt.Errorf("an image of the list is %s, not done", i.Status)
			}
			c.digests = append(c.digests, i.Digest)
		}
		c.seconds, c.processor, c.memory = run.seconds, run.processor, run.memory
		return nil
	})
}

// rebuildAlone rebuilds all images, each in a run of its own, one after the other; path is where their
// results go.
func (b *bench) rebuildAlone(m many, from, to *registry, path string) (*cost, error) {
	return measureTraffic(from, to, func(c *cost) error {
		for i := range m.images {
			run, err := b.timed("rebuild", m.source(from, i), "-o", fmt.Sprintf("docker://%s/%s/image%d:1", to.host, path, i))
			if err != nil {
				return err
			}
			_, digest, _ := strings.Cut(strings.TrimSpace(string(run.stdout)), "@")
			c.digests = append(c.digests, digest)
			c.seconds, c.processor, c.memory = c.seconds+run.seconds, c.processor+run.processor, max(c.memory, run.memory)
		}
		return nil
	})
}

// measureTraffic adds what went through both registries, which may be the same one.
func measureTraffic(from, to *registry, do func(*cost) error) (*cost, error) {
	c := &cost{}
	before, there := from.now(), to.now()
	if err := do(c); err != nil {
		return nil, err
	}
	c.traffic = from.since(before)
	if to != from {
		t := to.since(there)
		c.requests, c.pushed, c.read = c.requests+t.requests, c.pushed+t.pushed, c.read+t.read
	}
	return c, nil
}

// fillRegistry makes the images and pushes each to a repository of its own.
func (b *bench) fillRegistry(r *registry, m many) error {
	dir := filepath.Join(b.dir, "many")
	defer os.RemoveAll(dir)
	for n := range m.bases {
		// By way of a layout: its layers are compressed once and not at every push.
		path, err := layout.Write(filepath.Join(dir, fmt.Sprint(n)), empty.Index)
		if err != nil {
			return err
		}
		library, err := b.baseLibrary(n)
		if err != nil {
			return err
		}
		base, err := makeLayers(filepath.Join(dir, "base"), content{int64(n) * int64(m.baseBytes), int64(m.baseBytes), library}, imageLayers, plainLayer)
		if err != nil {
			return err
		}
		for i := n; i < m.images; i += m.bases {
			own, err := makeLayers(filepath.Join(dir, "own"), content{skip: int64(i) * int64(m.ownBytes), size: int64(m.ownBytes)}, 1, plainLayer)
			if err != nil {
				return err
			}
			img, err := assemble(fmt.Sprint(i), slices.Concat(base.layers, own.layers)...)
			if err != nil {
				return err
			}
			if err := addImage(path, fmt.Sprint(i), img); err != nil {
				return err
			}
			if err := pushFrom(path, img, fmt.Sprintf("%s/%s/image%d:1", r.host, m.path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// pushFrom pushes an image of a layout.
func pushFrom(path layout.Path, img v1.Image, to string) error {
	ref, err := name.ParseReference(to)
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	if img, err = path.Image(digest); err != nil {
		return err
	}
	return remote.Write(ref, img)
}

// baseLibrary writes the library with call sites of base n: another one in each, and as long as
// a libc. A part of vfix makes it longer, linked as data: bytes behind the end of an ELF file
// leave no room for a patch.
func (b *bench) baseLibrary(n int) (string, error) {
	vfix, err := filepath.Abs(b.vfix)
	if err != nil {
		return "", err
	}
	more, path := filepath.Join(b.dir, "more.S"), filepath.Join(b.dir, "libold.so")
	text := fmt.Sprintf("\t.section .rodata\n\t.incbin %q, %d, %d\n\t.section .note.GNU-stack, \"\", @progbits\n", vfix, n*legacyLibc/4, legacyLibc)
	if err := os.WriteFile(more, []byte(text), 0o600); err != nil {
		return "", err
	}
	return path, gcc("-shared", "-nostdlib", "-Wl,--build-id", fmt.Sprintf("-DPAGE=%#x", uint64(find.PageVaddr)), "-o", path, "shim/src/linked/stubs.S", more)
}
