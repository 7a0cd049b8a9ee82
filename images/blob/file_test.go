package blob_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// fileLayer is a layer whose blob is a file, as in a layout.
type fileLayer struct {
	v1.Layer
	path string
}

func (l fileLayer) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

// A decompressor that reads the blob's file itself gives what one gives that is fed, and the whole
// file is verified.
func TestLayerOfFile(t *testing.T) {
	plain := imagetest.Noise(3_000_000)
	l := imagetest.BytesLayer(t, plain)
	rc := imagetest.Must[io.ReadCloser](t)(l.Compressed())
	whole := imagetest.Must[[]byte](t)(io.ReadAll(rc))
	flipped := bytes.Clone(whole)
	flipped[1_500_000] ^= 0x40
	for name, in := range map[string][]byte{
		"as it was": whole, "cut off": whole[:2_000_000], "flipped": flipped, "another end": append(bytes.Clone(whole[:len(whole)-1]), 1),
		"zeros behind": append(bytes.Clone(whole), make([]byte, 1<<20)...),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "blob")
			imagetest.Write(t, path, in)
			imagetest.Decompressors(t, func(t *testing.T) {
				ls, err := blob.OpenLayer(t.Context(), fileLayer{l, path}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer ls.Close()
				got, err := io.ReadAll(ls)
				if err == nil {
					err = ls.Finish()
				} else {
					err = ls.Blame(err)
				}
				switch {
				case name == "as it was" && (err != nil || !bytes.Equal(got, plain)):
					t.Errorf("got %d bytes and error %v", len(got), err)
				case name != "as it was" && !errors.Is(err, hinterr.ErrDamaged):
					t.Errorf("got error %v, want one of damage", err)
				}
			})
		})
	}
}

// No compressed byte goes through vfix to a decompressor that can read the file.
func TestDecompressorReadsFile(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\n[ -f /dev/stdin ] || exit 1\nexec gzip -dc\n"
	if err := os.WriteFile(filepath.Join(dir, "igzip"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	l := imagetest.BytesLayer(t, imagetest.Noise(300_000))
	rc := imagetest.Must[io.ReadCloser](t)(l.Compressed())
	path := filepath.Join(dir, "blob")
	imagetest.Write(t, path, imagetest.Must[[]byte](t)(io.ReadAll(rc)))
	for name, c := range map[string]struct {
		v1.Layer
		file bool
	}{"file": {fileLayer{l, path}, true}, "stream": {l, false}} {
		ls, err := blob.OpenLayer(t.Context(), c.Layer, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err = ls.Finish(); (err == nil) != c.file {
			t.Errorf("%s: got error %v", name, err)
		}
		ls.Close()
	}
}
