package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// A layer of these files, and a layout of an image that has it.
func layoutOf(t *testing.T, change func(v1.Image) v1.Image, names ...string) (string, v1.Image) {
	t.Helper()
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: 4, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte("text"))
	}
	w.Close()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(plain.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		image = change(image)
	}
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(image); err != nil {
		t.Fatal(err)
	}
	return dir, image
}

// Each bad layout is also one for go-containerregistry's oracle, which reads layers three times.
func TestCheck(t *testing.T) {
	blob := func(dir string, image v1.Image) string {
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "blobs", "sha256", manifest.Layers[0].Digest.Hex)
	}
	poke := func(offset int) func(string, v1.Image) {
		return func(dir string, image v1.Image) {
			name := blob(dir, image)
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			content[(offset+len(content))%len(content)] ^= 1
			if err := os.WriteFile(name, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	otherDiffID := func(image v1.Image) v1.Image {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config = config.DeepCopy()
		config.RootFS.DiffIDs[0].Hex = "00" + config.RootFS.DiffIDs[0].Hex[2:]
		if image, err = mutate.ConfigFile(image, config); err != nil {
			t.Fatal(err)
		}
		return image
	}
	for name, test := range map[string]struct {
		names  []string
		change func(v1.Image) v1.Image
		spoil  func(string, v1.Image)
		bad    bool
	}{
		"good":                {names: []string{"a", "b"}},
		"a path twice":        {names: []string{"a", "a"}, bad: true},
		"another diff ID":     {names: []string{"a"}, change: otherDiffID, bad: true},
		"a byte of the layer": {names: []string{"a"}, spoil: poke(30), bad: true},
		"its checksum":        {names: []string{"a"}, spoil: poke(-6), bad: true},
		"its header":          {names: []string{"a"}, spoil: poke(4), bad: true},
		"longer":              {names: []string{"a"}, spoil: func(dir string, image v1.Image) { extend(t, blob(dir, image), "more") }, bad: true},
		"cut off":             {names: []string{"a"}, spoil: func(dir string, image v1.Image) { truncate(t, blob(dir, image), 40) }, bad: true},
		"no layer":            {names: []string{"a"}, spoil: func(dir string, image v1.Image) { os.Remove(blob(dir, image)) }, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, image := layoutOf(t, test.change, test.names...)
			if test.spoil != nil {
				test.spoil(dir, image)
			}
			index, err := layout.ImageIndexFromPath(dir)
			if err != nil {
				t.Fatal(err)
			}
			if theirs := validate.Index(index); (theirs != nil) != test.bad {
				t.Fatalf("go-containerregistry: got %v, want an error: %v", theirs, test.bad)
			}
			if err := check(dir); (err != nil) != test.bad {
				t.Errorf("got %v, want an error: %v", err, test.bad)
			}
		})
	}
}

func extend(t *testing.T, name, more string) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(more); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, name string, size int64) {
	t.Helper()
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
}
