// Command validate recomputes each digest, size and diff ID of an OCI layout from its bytes.
//
//	validate DIRECTORY
//
// It exits with 1 and a message that lists the mismatches.
package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: validate DIRECTORY")
		os.Exit(2)
	}
	if err := errors.Join(checkNames(os.Args[1]), checkImages(os.Args[1])); err != nil {
		fmt.Fprintf(os.Stderr, "validate: error: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// checkNames checks that each blob has its digest as its name; hidden files are what a killed process left.
func checkNames(dir string) error {
	return filepath.WalkDir(filepath.Join(dir, "blobs", "sha256"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		blob, err := os.Open(path)
		if err != nil {
			return err
		}
		defer blob.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, blob); err != nil {
			return err
		}
		if got := fmt.Sprintf("%x", sum.Sum(nil)); got != d.Name() {
			return fmt.Errorf("blob %s: got digest %s", d.Name(), got)
		}
		return nil
	})
}

// checkImages checks what the index names, by go-containerregistry's oracle.
func checkImages(dir string) error {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) == 0 {
		return errors.New("index.json names no image")
	}
	for _, image := range manifest.Manifests {
		blob, err := os.Stat(filepath.Join(dir, "blobs", "sha256", image.Digest.Hex))
		if err != nil {
			return err
		}
		if blob.Size() != image.Size {
			return fmt.Errorf("index.json: %s: got size %d, want %d", image.Digest, image.Size, blob.Size())
		}
	}
	return validate.Index(index)
}
