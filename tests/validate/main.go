// Command validate checks every byte of an OCI layout with go-containerregistry's own
// oracle: each digest, size and diff ID is computed anew from the blobs.
//
//	validate FOLDER
//
// It exits with 1 and one message that lists every mismatch.
package main

import (
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: validate FOLDER")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "validate: error: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// check validates the index of the layout in a folder and all that it names.
func check(folder string) error {
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) == 0 {
		return fmt.Errorf("index.json names no image")
	}
	return validate.Index(index)
}
