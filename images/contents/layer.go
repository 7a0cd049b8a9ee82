// The added layer: the patched files as a tar stream, compressed into a temporary file.

package contents

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"

	"github.com/klauspost/compress/gzip"

	"vfix.dev/vfix/images/blob"
)

// layerGzipLevel is the compression level of the added layer. With the pinned version of klauspost/compress it
// determines the layer's digest.
const layerGzipLevel = gzip.DefaultCompression

// NewLayer makes the layer with the patched files of t, each under all its names, and the extras. It has their
// parent directories as they are in t: an engine that unpacks the layer alone creates missing ones with arbitrary
// modes (docker's overlay2 once used 0600).
func NewLayer(ctx context.Context, t *Tree, hits []File, extras []Extra) (*blob.PackedLayer, error) {
	m := Members{}
	for _, h := range hits {
		m.addFile(h, t)
	}
	m.AddExtras(extras, t)
	l, err := blob.PackLayer(layerGzipLevel, func(w io.Writer) error { return m.Write(ctx, w) })
	return l, WrapPath("added layer", err)
}

// Member is an entry of a tar stream to write, with the content of a regular file.
type Member struct {
	*tar.Header
	Content func() io.Reader // nil for none
}

// Members are the entries of a layer, by name.
type Members map[string]Member

// addDirs adds the parent directories of a name: as in t, else as ImplicitDir. It omits a directory that the last
// layer with files in it has no entry for: each engine then shows the same as before.
func (m Members) addDirs(name string, t *Tree) {
	for d := path.Dir(name); d != "." && m[d].Header == nil; d = path.Dir(d) {
		e := ImplicitDir
		if k := t.At(d); k != nil {
			if !k.IsDir() || k.Implied {
				continue
			}
			e = k.Entry
		}
		m[d] = Member{Header: e.As(d)}
	}
}

// AddExtras adds files that the base does not have.
func (m Members) AddExtras(extras []Extra, t *Tree) {
	for _, e := range extras {
		m.addDirs(e.Name, t)
		m[e.Name] = e.Member()
	}
}

// Write writes the members of a layer, sorted by name.
func (m Members) Write(ctx context.Context, w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, name := range SortedKeys(m) {
		if err := m[name].Write(ctx, tw); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return tw.Close()
}

// Write writes one member.
func (m Member) Write(ctx context.Context, tw *tar.Writer) error {
	if err := tw.WriteHeader(m.Header); err != nil || m.Content == nil {
		return err
	}
	n, err := blob.CopyTo(ctx, tw, m.Content(), nil)
	if err == nil && n != m.Size {
		err = fmt.Errorf("got %d bytes, want %d", n, m.Size)
	}
	return err
}

// addFile adds a patched file of t under all its names, without the marks of its old content: the first name has the
// content, the others are hard links to it.
func (m Members) addFile(h File, t *Tree) {
	e := h.unmarked()
	for _, name := range h.Names {
		m.addDirs(name, t)
		m[name] = Member{Header: e.linkAs(name, h.Names[0])}
	}
	file := e.As(h.Names[0])
	file.Size = h.Plan.Size
	m[h.Names[0]] = Member{file, func() io.Reader { return h.Plan.Apply(h.ELF.Content) }}
}

// Member returns the file as an entry of a tar stream.
func (e Extra) Member() Member {
	h := tar.Header{Mode: e.Mode, ModTime: ImplicitDir.ModTime, Format: tar.FormatPAX}
	if e.Like != nil {
		h = e.Like.Header
	}
	h.Name, h.Linkname = e.Name, e.Link
	h.Typeflag, h.Size = tar.TypeReg, int64(len(e.Body))
	if e.Link != "" {
		h.Typeflag = tar.TypeSymlink
	}
	return Member{&h, func() io.Reader { return bytes.NewReader(e.Body) }}
}

// Extra is a file that the base does not have.
type Extra struct {
	Name string
	Mode int64
	Body []byte
	Link string // target, for a symlink
	Like *Entry // owner, mode, xattrs and time; nil: root's, of mode, from the epoch
}
