// Writing results: layouts, archives of a layout, and docker archives.

package source

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
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
func (s blobSet) addIndex(idx v1.ImageIndex, p progress.Reporter, depth int) (v1.Descriptor, error) {
	d, err := partial.Descriptor(idx)
	if err != nil {
		return v1.Descriptor{}, err
	}
	if depth < 0 {
		return *d, hinterr.Damaged("index %v: indexes nested more than %d levels deep", d.Digest, maxNesting)
	}
	raw, err := idx.RawManifest()
	m, merr := idx.IndexManifest()
	if err := cmp.Or(err, merr); err != nil {
		return *d, err
	}
	s.addBytes(d.Digest, raw)
	for _, e := range m.Manifests {
		err := s.addEntry(idx, e, p, depth)
		if errors.Is(err, hinterr.ErrNotFound) {
			p.Note("%v: listed in the index but not in the source: it stays listed", e.Digest)
		} else if err != nil {
			return *d, err
		}
	}
	return *d, nil
}

func (s blobSet) addEntry(idx v1.ImageIndex, e v1.Descriptor, p progress.Reporter, depth int) error {
	switch {
	case e.MediaType.IsIndex():
		sub, err := idx.ImageIndex(e.Digest)
		if err != nil {
			return err
		}
		_, err = s.addIndex(sub, p, depth-1)
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

// prepare collects what a layout of r needs, and the entry for its index.json. An index goes as it is; a single image
// gets OCI media types. done is called when the blobs are written.
func prepare(ctx context.Context, r Result, tag string, o Options) (s blobSet, d v1.Descriptor, done func(), err error) {
	s, done = blobSet{}, func() {}
	if r.Index != nil {
		d, err = s.addIndex(r.Index, o.Progress, maxNesting)
	} else {
		var img v1.Image
		if img, done, err = portable(ctx, r.Image, true, o); err == nil {
			d, err = s.addImage(img)
		}
	}
	// Platform and annotations, if any, are those of the place that the image came from.
	d = v1.Descriptor{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest}
	if tag != "" {
		d.Annotations = map[string]string{refNameKey: tag}
	}
	return s, d, done, err
}

// newLayoutIndex is the index.json of a layout with one entry; layoutMarker is its file oci-layout.
func newLayoutIndex(d v1.Descriptor) ([]byte, error) {
	return json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
}

const layoutMarker = `{"imageLayoutVersion":"` + layoutVersion + `"}`

// putLayout writes a result into an OCI layout directory: a new one, or an existing one, in which an image of the same
// tag is replaced. A new layout gets its name when it is complete; in an existing one the index is written last.
func putLayout(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	fail := func(err error) (Stored, error) { return Stored{}, fmt.Errorf("oci layout %s: %w", dest.Name, err) }
	exists, err := layoutExists(dest.Name)
	if err != nil {
		return fail(err)
	}
	s, d, done, err := prepare(ctx, r, dest.Tag, o)
	defer done()
	if err != nil {
		return fail(err)
	}
	if !exists {
		err = atomicfile.WriteDir(dest.Name, 0o777, func(temp string) error { return newLayout(ctx, temp, s, d, o) })
		if errors.Is(err, fs.ErrExist) { // another run was faster
			exists, err = layoutExists(dest.Name)
		}
	}
	if err == nil && exists {
		err = extendLayout(ctx, dest.Name, s, d, o)
	}
	if err != nil {
		return fail(err)
	}
	return Stored{Reference: dest.String(), Digest: d.Digest.String()}, nil
}

// layoutExists reports whether dir is a layout; it may be missing or empty.
func layoutExists(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(filepath.Join(dir, layoutFile)); errors.Is(err, fs.ErrNotExist) {
		return false, errors.New("the directory is not empty and not an OCI layout")
	}
	return true, nil
}

func newLayout(ctx context.Context, dir string, s blobSet, d v1.Descriptor, o Options) error {
	if err := writeBlobs(ctx, dir, s, o); err != nil {
		return err
	}
	index, err := newLayoutIndex(d)
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, layoutIndex), index)
	}
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, layoutFile), []byte(layoutMarker))
	}
	return cmp.Or(err, ctx.Err())
}

// extendLayout adds blobs to a layout and then the entry d to its index, instead of the entries with the same tag, or
// with the same content and no tag. Several runs that extend a layout take turns.
func extendLayout(ctx context.Context, dir string, s blobSet, d v1.Descriptor, o Options) error {
	if err := writeBlobs(ctx, dir, s, o); err != nil {
		return err
	}
	unlock, err := atomicfile.Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	path := filepath.Join(dir, layoutIndex)
	raw, err := blob.ReadSmall(path, blob.MaxManifest)
	if err != nil {
		return err
	}
	index, err := parseIndex(raw)
	if err != nil {
		return err
	}
	tag := d.Annotations[refNameKey]
	isTagged := false
	index.keep(func(e v1.Descriptor) bool {
		have := e.Annotations[refNameKey]
		isTagged = isTagged || e.Digest == d.Digest && have != ""
		return have != tag || tag == "" && e.Digest != d.Digest
	})
	if tag != "" || !isTagged { // a second entry without a tag would only make the first ambiguous
		if err := index.add(d); err != nil {
			return err
		}
	}
	text, err := index.text()
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	return atomicfile.Write(path, text)
}

// writeBlobs writes the blobs that a layout directory does not have yet, each under its final name only when it is
// whole and verified.
func writeBlobs(ctx context.Context, dir string, s blobSet, o Options) error {
	for _, b := range s.sorted() {
		path := filepath.Join(dir, filepath.FromSlash(blobName(b.digest)))
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Size() == b.size {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		f, err := atomicfile.Create(path)
		if err != nil {
			return err
		}
		if err = b.copyTo(ctx, f, o); err == nil {
			err = f.Commit()
		}
		f.Discard()
		if err != nil {
			return err
		}
	}
	return nil
}

// putArchive writes a result as a docker archive, for docker load, or as an OCI layout in a tar file. A docker archive
// holds one platform; its tag is the name that the image gets there.
func putArchive(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	fail := func(err error) (Stored, error) {
		return Stored{}, fmt.Errorf("%s %s: %w", archiveWords[dest.Transport], dest.Name, err)
	}
	f, err := atomicfile.Create(dest.Name)
	if err != nil {
		return fail(err)
	}
	defer f.Discard()
	var digest v1.Hash
	if dest.Transport == DockerArchive {
		if r.Index != nil {
			o.Progress.Note("a docker archive holds one platform: the others are omitted")
		}
		digest, err = writeDockerTar(ctx, f, archiveTag(dest, r.Source), r.Image, o)
	} else {
		digest, err = writeOCITar(ctx, f, dest.Tag, r, o)
	}
	if err == nil {
		err = f.Commit()
	}
	if err != nil {
		return fail(err)
	}
	return Stored{Reference: dest.String(), Digest: digest.String()}, nil
}

// archiveTag is the name of the image in a docker archive: without a tag of dest, that which its source has, so that
// an engine that loads the archive can run it by a name.
func archiveTag(dest, from Ref) string {
	if dest.Tag != "" || from == (Ref{}) {
		return dest.Tag
	}
	tag, err := DefaultName(from, "-vfix")
	if err != nil {
		return ""
	}
	return tag
}

// tarHeader begins a file of size bytes, with no owner and no time.
func tarHeader(tw *tar.Writer, name string, size int64) error {
	return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644})
}

func tarBytes(tw *tar.Writer, name string, data []byte) error {
	if err := tarHeader(tw, name, int64(len(data))); err != nil {
		return err
	}
	_, err := tw.Write(data)
	return err
}

// writeOCITar writes an OCI layout in one pass: entries sorted by name, no times, no owners, so that the same result
// gives the same bytes.
func writeOCITar(ctx context.Context, w io.Writer, tag string, r Result, o Options) (v1.Hash, error) {
	s, d, done, err := prepare(ctx, r, tag, o)
	defer done()
	if err != nil {
		return d.Digest, err
	}
	tw := tar.NewWriter(w)
	dirs := map[string]bool{}
	for _, b := range s.sorted() {
		for _, dir := range []string{"blobs/", "blobs/" + b.digest.Algorithm + "/"} {
			if dirs[dir] {
				continue
			}
			dirs[dir] = true
			if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
				return d.Digest, err
			}
		}
		if err := tarHeader(tw, blobName(b.digest), b.size); err != nil {
			return d.Digest, err
		}
		if err := b.copyTo(ctx, tw, o); err != nil {
			return d.Digest, err
		}
	}
	index, err := newLayoutIndex(d)
	if err == nil {
		err = tarBytes(tw, layoutIndex, index)
	}
	if err == nil {
		err = tarBytes(tw, layoutFile, []byte(layoutMarker))
	}
	if err == nil {
		err = tw.Close()
	}
	return d.Digest, err
}

// writeDockerTar writes an image as docker save does and returns its ID. Layers go as they are, gzip'ed or plain, both
// of which every docker load reads; only newer ones (23.0) read zstd, so such a layer is unpacked. The bytes depend
// only on the image and tag.
func writeDockerTar(ctx context.Context, w io.Writer, tag string, img v1.Image, o Options) (v1.Hash, error) {
	var m archived
	if tag != "" {
		t, err := fullTag(tag)
		if err != nil {
			return v1.Hash{}, err
		}
		m.RepoTags = []string{t}
	}
	id, err := img.ConfigName()
	config, cerr := img.RawConfigFile()
	layers, lerr := img.Layers()
	if err := cmp.Or(err, cerr, lerr); err != nil {
		return id, err
	}
	tw := tar.NewWriter(w)
	m.Config, m.Layers = id.Hex+".json", []string{}
	if err := tarBytes(tw, m.Config, config); err != nil {
		return id, err
	}
	written := map[v1.Hash]string{}
	for n, l := range layers {
		name, err := writeDockerLayer(ctx, tw, l, written, o)
		if err != nil {
			return id, fmt.Errorf("layer %d: %w", n, err)
		}
		m.Layers = append(m.Layers, name)
	}
	raw, err := jsonobject.Encode([]archived{m})
	if err != nil {
		return id, err
	}
	if err := tarBytes(tw, dockerManifest, raw); err != nil {
		return id, err
	}
	return id, tw.Close()
}

// writeDockerLayer writes a layer, unless it is written already, and returns its name. The content, not the media
// type, says how it is compressed.
func writeDockerLayer(ctx context.Context, tw *tar.Writer, l v1.Layer, written map[v1.Hash]string, o Options) (string, error) {
	digest, err := l.Digest()
	size, serr := l.Size()
	if err := cmp.Or(err, serr); err != nil || written[digest] != "" {
		return written[digest], err
	}
	if IsForeign(l) && !AtHand(l) {
		return "", hinterr.Errorf(hinterr.ErrUnsupported, "%v is a foreign layer, which is not with the image", digest)
	}
	rc, err := blob.OpenUnverified(l)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	in := bufio.NewReaderSize(rc, blob.CopyBuffer)
	head, err := in.Peek(blob.MagicLen)
	if err != nil && err != io.EOF {
		return "", err
	}
	b := blobToWrite{digest, size, blob.LayerName(l, digest), func() (io.ReadCloser, error) { return io.NopCloser(in), nil }}
	name := digest.Hex + ".tar"
	switch blob.DetectCompression(head) {
	case blob.GzipStream:
		name += ".gz"
	case blob.ZstdStream:
		f, plain, err := unpacked(l)
		if err != nil {
			return "", err
		}
		defer blob.RemoveTemp(f)
		b.digest, b.size = plain.digest, plain.size
		b.open = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, plain.size)), nil }
		name = plain.digest.Hex + ".tar"
	}
	written[digest] = name
	if err := tarHeader(tw, name, b.size); err != nil {
		return "", err
	}
	return name, b.copyTo(ctx, tw, o)
}

// unpacked unpacks a layer into a temporary file: tar needs the size first.
func unpacked(l v1.Layer) (f *os.File, plain blobToWrite, err error) {
	if plain.digest, err = l.DiffID(); err != nil {
		return nil, plain, err
	}
	rc, err := l.Uncompressed()
	if err != nil {
		return nil, plain, err
	}
	defer rc.Close()
	if f, err = blob.TempFile(); err != nil {
		return nil, plain, err
	}
	if plain.size, err = io.Copy(f, rc); err != nil {
		blob.RemoveTemp(f)
	}
	return f, plain, err
}
