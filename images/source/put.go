// Writing results: layouts, archives of a layout, and docker archives.

package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// Put writes a result to dest, completely or not at all. The digest of what was written may differ from that of
// r.Image: an OCI layout gets OCI media types, and uncompressed layers of an engine or docker archive are compressed
// for a registry and for OCI.
func Put(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	o = o.WithDefaults()
	dest, err := ResolveDest(dest)
	if err != nil {
		return Stored{}, err
	}
	if dest.Transport == Dir {
		return Stored{}, hinterr.Errorf(hinterr.ErrUnsupported, "%v: only a rebuild writes a directory", dest)
	}
	noteOmitted(r.Index, o.Progress)
	return transports[dest.Transport].put(ctx, dest, r, o)
}

// Ready returns what prevents an image from being written to a DEST: an engine that does not answer, no directory for
// the file. It leaves nothing behind.
func Ready(ctx context.Context, dest Ref, o Options) error {
	dest, err := ResolveDest(dest)
	if err != nil {
		return err
	}
	switch dest.Transport {
	case Daemon:
		return EachEngine(ctx, dest, o.WithDefaults(), func(*Engine) (bool, error) { return true, nil })
	case DockerArchive, OCIArchive:
		f, err := atomicfile.Create(dest.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", dest.Name, err)
		}
		f.Discard()
	case Dir:
		return CheckRootDest(dest.Name)
	}
	return nil
}

// blobToWrite is one blob of a result.
type blobToWrite struct {
	digest v1.Hash
	size   int64
	layer  string // of a layer, its name in messages; "" for other blobs
	open   func() (io.ReadCloser, error)
}

// blobSet is every blob that an image or index needs, by digest.
type blobSet map[v1.Hash]blobToWrite

func (s blobSet) addBytes(h v1.Hash, data []byte) {
	s[h] = blobToWrite{h, int64(len(data)), "", func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

func (s blobSet) addImage(img v1.Image) (v1.Descriptor, error) {
	d, err := partial.Descriptor(img)
	if err != nil {
		return v1.Descriptor{}, err
	}
	raw, rerr := img.RawManifest()
	m, merr := img.Manifest()
	config, cerr := img.RawConfigFile()
	layers, lerr := img.Layers()
	if err := cmp.Or(rerr, merr, cerr, lerr); err != nil {
		return *d, err
	}
	if got, want := len(layers), len(m.Layers); got != want {
		return *d, hinterr.Damaged("manifest %v: got %d layers, want %d", d.Digest, got, want)
	}
	s.addBytes(d.Digest, raw)
	s.addBytes(m.Config.Digest, config)
	for n, ld := range m.Layers {
		if !ld.MediaType.IsDistributable() && len(ld.URLs) > 0 {
			continue // only its own place has it (image-spec, layer.md, "Non-Distributable Layers")
		}
		s[ld.Digest] = blobToWrite{ld.Digest, ld.Size, blob.LayerName(layers[n], ld.Digest), func() (io.ReadCloser, error) { return blob.OpenUnverified(layers[n]) }}
	}
	return *d, nil
}

// addIndex adds an index with all that is in it. A manifest that the source lists but does not have stays listed.
func (s blobSet) addIndex(idx v1.ImageIndex, p progress.Reporter) (v1.Descriptor, error) {
	d, err := partial.Descriptor(idx)
	if err != nil {
		return v1.Descriptor{}, err
	}
	raw, err := idx.RawManifest()
	m, merr := idx.IndexManifest()
	if err := cmp.Or(err, merr); err != nil {
		return *d, err
	}
	s.addBytes(d.Digest, raw)
	for _, e := range m.Manifests {
		err := s.addEntry(idx, e, p)
		if errors.Is(err, hinterr.ErrNotFound) {
			p.Note("%v: listed in the index but not in the source: it stays listed", e.Digest)
		} else if err != nil {
			return *d, err
		}
	}
	return *d, nil
}

func (s blobSet) addEntry(idx v1.ImageIndex, e v1.Descriptor, p progress.Reporter) error {
	switch {
	case e.MediaType.IsIndex():
		sub, err := idx.ImageIndex(e.Digest)
		if err != nil {
			return err
		}
		_, err = s.addIndex(sub, p)
		return err
	case e.MediaType.IsImage():
		img, err := idx.Image(e.Digest)
		if err != nil {
			return err
		}
		_, err = s.addImage(img)
		return err
	}
	l, err := blobOf(idx, e.Digest)
	if err != nil {
		return err
	}
	s[e.Digest] = blobToWrite{digest: e.Digest, size: e.Size, open: l.Compressed}
	return nil
}

// sorted gives the blobs in the order of their digests.
func (s blobSet) sorted() []blobToWrite {
	return slices.SortedFunc(maps.Values(s), func(a, b blobToWrite) int { return strings.Compare(a.digest.String(), b.digest.String()) })
}

// copyTo writes a blob, verified.
func (b blobToWrite) copyTo(ctx context.Context, w io.Writer, o Options) error {
	rc, err := b.open()
	if err != nil {
		return err
	}
	defer rc.Close()
	checked, err := blob.Verified(rc, b.digest, b.size)
	if err != nil {
		return err
	}
	var task progress.Task
	if b.layer != "" {
		task = o.Progress.Start("write", b.layer, b.size)
		defer task.Done()
	}
	_, err = blob.CopyTo(ctx, w, checked, task)
	return err
}
