package images

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"

	"vfix.dev/vfix/rewriter"
)

// layerGzipLevel is the compression of the added layer. Together with the pinned version of
// klauspost/compress it fixes the layer's digest.
const layerGzipLevel = gzip.DefaultCompression

// hit is a visible file with references to the vsyscall page, and what is done about them.
type hit struct {
	visible
	plan *rewriter.Plan
}

// addedLayer is the layer of patched files: a gzip stream in a temporary file. It
// implements v1.Layer, and can be read until Close.
type addedLayer struct {
	f              *os.File
	size           int64 // compressed bytes
	digest, diffID v1.Hash
}

func (l *addedLayer) Digest() (v1.Hash, error)             { return l.digest, nil }
func (l *addedLayer) DiffID() (v1.Hash, error)             { return l.diffID, nil }
func (l *addedLayer) Size() (int64, error)                 { return l.size, nil }
func (l *addedLayer) MediaType() (types.MediaType, error)  { return types.OCILayer, nil }
func (l *addedLayer) Compressed() (io.ReadCloser, error)   { return io.NopCloser(l.reader()), nil }
func (l *addedLayer) Uncompressed() (io.ReadCloser, error) { return gzip.NewReader(l.reader()) }
func (l *addedLayer) Close()                               { removeTemp(l.f) }
func (l *addedLayer) reader() io.Reader                    { return io.NewSectionReader(l.f, 0, l.size) }

// newLayer writes the layer that puts the patched files over what t has: each with all its
// names, under the folders that lead to it; and the extras. The folders are there because an engine that
// unpacks the layer alone makes missing ones as it likes (docker's overlay2 with mode 0600
// at one time); they are as t has them, so nothing else changes.
func (s *session) newLayer(ctx context.Context, t *merged, hits []hit, extras []extra) (*addedLayer, error) {
	return packLayer(func(w io.Writer) error { return s.writeMembers(ctx, w, t, hits, extras) })
}

// packLayer makes a layer of the tar stream that write writes.
func packLayer(write func(io.Writer) error) (_ *addedLayer, err error) {
	l := &addedLayer{}
	if l.f, err = tempFile(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	packed := &countWriter{w: l.f, h: sha256.New()}
	zw, err := gzip.NewWriterLevel(packed, layerGzipLevel)
	if err != nil {
		return nil, err
	}
	raw := sha256.New()
	if err := write(io.MultiWriter(zw, raw)); err != nil {
		return nil, fmt.Errorf("added layer: %w", err)
	}
	if err := zw.Close(); err != nil {
		return nil, fmt.Errorf("added layer: %w", err)
	}
	l.size = packed.n
	l.digest = sha256Hash(packed.h)
	l.diffID = sha256Hash(raw)
	return l, nil
}

func sha256Hash(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// countWriter counts and hashes what is written.
type countWriter struct {
	w io.Writer
	h hash.Hash
	n int64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.h.Write(p[:n])
	c.n += int64(n)
	return n, err
}

// memberWriters are those of a tar stream that is to be written, by name.
type memberWriters map[string]func(*tar.Writer) error

// addFolders adds the folders that lead to a name: as t has them, else as implicitDir.
func (m memberWriters) addFolders(name string, t *merged) {
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		if m[d] != nil {
			return
		}
		e := implicitDir
		if k := t.at(d); k != nil {
			e = k.entry
		}
		m[d] = func(tw *tar.Writer) error { return tw.WriteHeader(dirHeader(d, e)) }
	}
}

// addExtras adds files that are no files of the base.
func (m memberWriters) addExtras(extras []extra, t *merged) {
	for _, e := range extras {
		m.addFolders(e.name, t)
		m[e.name] = e.write
	}
}

// write writes the members sorted by name.
func (m memberWriters) write(w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := m[name](tw); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return tw.Close()
}

// writeMembers writes the tar stream of the added layer.
func (s *session) writeMembers(ctx context.Context, w io.Writer, t *merged, hits []hit, extras []extra) error {
	m := memberWriters{}
	for _, h := range hits {
		for i, name := range h.names {
			m.addFolders(name, t)
			if i == 0 {
				m[name] = func(tw *tar.Writer) error { return s.writeFile(ctx, tw, h) }
				continue
			}
			m[name] = func(tw *tar.Writer) error {
				return tw.WriteHeader(linkHeader(name, h.names[0], h.entry))
			}
		}
	}
	m.addExtras(extras, t)
	return m.write(w)
}

// write writes one file that is no file of the base.
func (e extra) write(tw *tar.Writer) error {
	like := e.like
	if like == nil {
		like = &meta{mode: e.mode, mtime: implicitDir.meta.mtime}
	}
	hdr := like.header(e.name)
	if e.link != "" {
		hdr.Typeflag, hdr.Linkname = tar.TypeSymlink, e.link
		return tw.WriteHeader(hdr)
	}
	hdr.Typeflag, hdr.Size = tar.TypeReg, int64(len(e.body))
	if err := tw.WriteHeader(hdr); err != nil {
		return err
	}
	_, err := tw.Write(e.body)
	return err
}

// at returns the node with a name of the tree, nil where there is none. The name is one
// that walk gave: it has no symlinks in it.
func (t *merged) at(name string) *node {
	k := t.root
	for _, c := range components(name) {
		if k = k.kids[c]; k == nil {
			return nil
		}
	}
	return k
}

func (s *session) writeFile(ctx context.Context, tw *tar.Writer, h hit) error {
	hdr := h.meta.unmarked().header(h.names[0])
	hdr.Typeflag, hdr.Size = tar.TypeReg, h.plan.Size
	if err := tw.WriteHeader(hdr); err != nil {
		return err
	}
	n, err := copyTo(ctx, tw, h.plan.Apply(h.elf.content), nil)
	if err == nil && n != h.plan.Size {
		err = fmt.Errorf("patched file: got %d bytes, want %d", n, h.plan.Size)
	}
	return err
}

func dirHeader(name string, e *entry) *tar.Header {
	hdr := e.meta.header(name + "/")
	hdr.Typeflag = tar.TypeDir
	return hdr
}

func linkHeader(name, target string, e *entry) *tar.Header {
	hdr := e.meta.header(name)
	hdr.Typeflag, hdr.Linkname = tar.TypeLink, target
	// The file has them already.
	hdr.PAXRecords = nil
	return hdr
}

// header is the tar header with this metadata. PAX keeps xattrs, long names and fractions
// of a second; archive/tar adds records only where there is something to keep.
func (m *meta) header(name string) *tar.Header {
	h := &tar.Header{
		Name: name, Mode: m.mode, Uid: m.uid, Gid: m.gid, Uname: m.uname, Gname: m.gname,
		ModTime: m.mtime, Format: tar.FormatPAX,
	}
	for k, v := range m.xattrs {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[xattrPrefix+k] = v
	}
	return h
}

// differs names what two files' metadata differs in, "" for nothing.
func (m *meta) differs(o *meta) string {
	var d []string
	add := func(what string, got, want any) { d = append(d, fmt.Sprintf("%s: got %v, want %v", what, got, want)) }
	if m.mode != o.mode {
		add("mode", fmt.Sprintf("%#o", m.mode), fmt.Sprintf("%#o", o.mode))
	}
	if m.uid != o.uid || m.gid != o.gid {
		add("owner", fmt.Sprintf("%d:%d", m.uid, m.gid), fmt.Sprintf("%d:%d", o.uid, o.gid))
	}
	if !m.mtime.Equal(o.mtime) {
		add("mtime", m.mtime.UTC(), o.mtime.UTC())
	}
	if m.major != o.major || m.minor != o.minor {
		add("device", fmt.Sprintf("%d:%d", m.major, m.minor), fmt.Sprintf("%d:%d", o.major, o.minor))
	}
	if !maps.Equal(m.xattrs, o.xattrs) {
		add("xattrs", xattrNames(m.xattrs), xattrNames(o.xattrs))
	}
	return strings.Join(d, ", ")
}

func xattrNames(x map[string]string) []string { return slices.Sorted(maps.Keys(x)) }
