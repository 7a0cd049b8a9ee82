// Command validate checks every byte of an OCI layout: each digest, size and diff ID is computed
// again from the blobs. Indexes, manifests and configs are checked by go-containerregistry's own
// oracle. That reads each layer three times, so layers are read here, once.
//
//	validate DIRECTORY
//
// It exits with 1 and one message that lists every mismatch.
package main

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/klauspost/compress/gzip"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: validate DIRECTORY")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "validate: error: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// check validates the index of the layout in a directory and all that it names.
func check(dir string) error {
	index, err := layout.ImageIndexFromPath(dir)
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
	return errors.Join(validate.Index(index, validate.Fast), checkBlobs(layout.Path(dir), index))
}

// checkBlobs checks what an index names: each layer, and each manifest as a blob.
func checkBlobs(path layout.Path, index v1.ImageIndex) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	var errs []error
	for _, desc := range manifest.Manifests {
		_, err := checkBlob(path, desc, false)
		errs = append(errs, err)
		switch {
		case desc.MediaType.IsIndex():
			inner, err := index.ImageIndex(desc.Digest)
			if err == nil {
				err = checkBlobs(path, inner)
			}
			errs = append(errs, err)
		case desc.MediaType.IsImage():
			image, err := index.Image(desc.Digest)
			if err == nil {
				err = checkLayers(path, image)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkLayers checks the layers of an image against its manifest, and against the diff IDs of its
// config. An entry whose media type is not a layer's has no diff ID.
func checkLayers(path layout.Path, image v1.Image) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	var errs []error
	var diffIDs []v1.Hash
	for _, desc := range manifest.Layers {
		diffID, err := checkBlob(path, desc, desc.MediaType.IsLayer())
		errs = append(errs, err)
		if desc.MediaType.IsLayer() {
			diffIDs = append(diffIDs, diffID)
		}
	}
	if !manifest.Config.MediaType.IsConfig() {
		return errors.Join(errs...)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if got, want := fmt.Sprint(config.RootFS.DiffIDs), fmt.Sprint(diffIDs); got != want {
		errs = append(errs, fmt.Errorf("config %s: got diff IDs %s, want those of the layers %s", manifest.Config.Digest, got, want))
	}
	return errors.Join(errs...)
}

// checkBlob computes a blob's size and digest, and returns a layer's diff ID: the digest of
// the plain tar stream, in which each path occurs once.
func checkBlob(path layout.Path, desc v1.Descriptor, layer bool) (v1.Hash, error) {
	blob, err := path.Blob(desc.Digest)
	if err != nil {
		return v1.Hash{}, err
	}
	defer blob.Close()
	packed := &counted{Reader: blob, sum: sha256.New()}
	var diffID v1.Hash
	if layer {
		if diffID, err = unpack(packed); err != nil {
			err = fmt.Errorf("layer %s: %w", desc.Digest, err)
		}
	}
	_, rest := io.Copy(io.Discard, packed)
	if err = errors.Join(err, rest); err != nil {
		return diffID, err
	}
	if got := digestOf(packed.sum); got != desc.Digest || packed.size != desc.Size {
		return diffID, fmt.Errorf("blob %s of %d bytes: got %s of %d bytes", desc.Digest, desc.Size, got, packed.size)
	}
	return diffID, nil
}

// unpack reads a gzip layer to its end.
func unpack(packed io.Reader) (v1.Hash, error) {
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return v1.Hash{}, err
	}
	plain := &counted{Reader: unpacked, sum: sha256.New()}
	stream, names := tar.NewReader(plain), map[string]bool{}
	for {
		header, err := stream.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return v1.Hash{}, err
		}
		if names[header.Name] {
			return v1.Hash{}, fmt.Errorf("path %q is there twice", header.Name)
		}
		names[header.Name] = true
	}
	// The rest, which the tar reader leaves, is padding.
	_, err = io.Copy(io.Discard, plain)
	return digestOf(plain.sum), err
}

// counted adds up the size and the SHA-256 of what is read.
type counted struct {
	io.Reader
	sum  hash.Hash
	size int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.size += int64(n)
	c.sum.Write(p[:n])
	return n, err
}

func digestOf(sum hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sum.Sum(nil))}
}
