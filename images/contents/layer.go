// The added layer: the patched files as a tar stream, compressed into a temporary file.

package contents

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"unique"

	"github.com/klauspost/compress/gzip"

	"vfix.dev/vfix/images/blob"
)

// layerGzipLevel is the compression level of the added layer. With the pinned version of klauspost/compress it
// determines the layer's digest.
const layerGzipLevel = gzip.DefaultCompression

// AddedLayer is the layer of patched files.
type AddedLayer = blob.PackedLayer

// NewLayer writes the layer with the patched files of t, each under all its names, and the extras. It has their
// parent directories as they are in t: an engine that unpacks the layer alone creates missing ones with arbitrary
// modes (docker's overlay2 once used 0600).
func (s *Session) NewLayer(ctx context.Context, t *Tree, hits []Target, extras []Extra) (*AddedLayer, error) {
	l, err := blob.PackLayer(layerGzipLevel, func(w io.Writer) error { return s.writeMembers(ctx, w, t, hits, extras) })
	return l, WrapPath("added layer", err)
}

// PackLayer makes a layer from the tar stream of write.
func PackLayer(write func(io.Writer) error) (*AddedLayer, error) {
	l, err := blob.PackLayer(layerGzipLevel, write)
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
			if k.Kids == nil || k.Implied {
				continue
			}
			e = k.Entry
		}
		m[d] = Member{Header: e.Header(d)}
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

func (s *Session) writeMembers(ctx context.Context, w io.Writer, t *Tree, hits []Target, extras []Extra) error {
	m := Members{}
	for _, h := range hits {
		m.addFile(t, h)
	}
	m.AddExtras(extras, t)
	return m.Write(ctx, w)
}

// addFile adds a patched file of t under all its names, without the marks of its old content: the first name has the
// content, the others are hard links to it.
func (m Members) addFile(t *Tree, h Target) {
	e := h.Entry.Unmarked()
	for _, name := range h.Names {
		m.addDirs(name, t)
		m[name] = Member{Header: linkHeader(name, h.Names[0], e)}
	}
	hdr := e.Meta.header(h.Names[0])
	hdr.Typeflag, hdr.Size = tar.TypeReg, h.Plan.Size
	m[h.Names[0]] = Member{hdr, func() io.Reader { return h.Plan.Apply(h.ELF.Content) }}
}

// Member returns the file as an entry of a tar stream.
func (e Extra) Member() Member {
	like := e.Like
	if like == nil {
		like = &Meta{Mode: e.Mode, Mtime: ImplicitDir.Meta.Mtime}
	}
	hdr := like.header(e.Name)
	switch {
	case strings.HasSuffix(e.Name, "/"):
		hdr.Typeflag = tar.TypeDir
	case e.Link != "":
		hdr.Typeflag, hdr.Linkname = tar.TypeSymlink, e.Link
	default:
		hdr.Typeflag, hdr.Size = tar.TypeReg, int64(len(e.Body))
	}
	return Member{hdr, func() io.Reader { return bytes.NewReader(e.Body) }}
}

// Header returns the tar header of an entry under a name, with the size of a regular file.
func (e *Entry) Header(name string) *tar.Header {
	hdr := e.Meta.header(name)
	switch e.Kind {
	case kindHardLink:
		return linkHeader(name, e.Link, e)
	case KindDir:
		hdr.Name, hdr.Typeflag = name+"/", tar.TypeDir
	case KindSymlink:
		hdr.Typeflag, hdr.Linkname = tar.TypeSymlink, e.Link
	case KindOther:
		hdr.Typeflag, hdr.Devmajor, hdr.Devminor = e.Flag, e.Meta.device.major(), e.Meta.device.minor()
	default:
		hdr.Typeflag, hdr.Size = tar.TypeReg, e.Size
	}
	return hdr
}

func linkHeader(name, target string, e *Entry) *tar.Header {
	hdr := e.Meta.header(name)
	hdr.Typeflag, hdr.Linkname = tar.TypeLink, target
	// The file has its xattrs already, but loses this one when the owner of the link is set.
	hdr.PAXRecords = nil
	if c, ok := e.Meta.Xattrs[capability]; ok {
		hdr.PAXRecords = map[string]string{blob.XattrPrefix + capability: c}
	}
	return hdr
}

// header returns the tar header with this metadata. PAX has xattrs, long names and fractions of a second;
// archive/tar adds records only if they are needed.
func (m *Meta) header(name string) *tar.Header {
	h := &tar.Header{
		Name: name, Mode: int64(m.Mode), Uid: int(m.UID), Gid: int(m.GID),
		ModTime: m.Mtime, Format: tar.FormatPAX,
	}
	if m.owners != (unique.Handle[owners]{}) {
		h.Uname, h.Gname = m.owners.Value().user, m.owners.Value().group
	}
	for k, v := range m.Xattrs {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[blob.XattrPrefix+k] = v
	}
	return h
}

// Differs lists the differences between the metadata of two files, "" for none.
func (m *Meta) Differs(o *Meta) string {
	var d []string
	add := func(what string, got, want any) { d = append(d, fmt.Sprintf("%s: got %v, want %v", what, got, want)) }
	if m.Mode != o.Mode {
		add("mode", fmt.Sprintf("%#o", m.Mode), fmt.Sprintf("%#o", o.Mode))
	}
	if m.UID != o.UID || m.GID != o.GID {
		add("owner", fmt.Sprintf("%d:%d", m.UID, m.GID), fmt.Sprintf("%d:%d", o.UID, o.GID))
	}
	if !m.Mtime.Equal(o.Mtime) {
		add("mtime", m.Mtime.UTC(), o.Mtime.UTC())
	}
	if got, want := m.device, o.device; got != want {
		add("device", fmt.Sprintf("%d:%d", got.major(), got.minor()), fmt.Sprintf("%d:%d", want.major(), want.minor()))
	}
	if !maps.Equal(m.Xattrs, o.Xattrs) {
		add("xattrs", SortedKeys(m.Xattrs), SortedKeys(o.Xattrs))
	}
	return strings.Join(d, ", ")
}

// Extra is a file that the base does not have.
type Extra struct {
	Name string // of a directory with a final slash
	Mode uint32
	Body []byte
	Link string // target, for a symlink
	Like *Meta  // owner, mode and time; nil: root's, of mode, from the epoch
}
