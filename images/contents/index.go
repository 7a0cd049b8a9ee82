// The contents of one layer, in little memory: each layer is read once, but its visible files are known only after
// all layers have been read.

package contents

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unique"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// kind is the role of a layer's member in the merged file system.
type kind uint8

const (
	KindFile kind = iota
	KindDir
	KindSymlink
	kindHardLink
	KindOther    // device or fifo
	KindWhiteout // .wh.NAME hides NAME of the layers below
	KindOpaque   // .wh..wh..opq hides the contents of its directory in the layers below
	KindPool     // .wh..wh.plnk/NAME: a target only for hard links, in images made on aufs
)

// Whiteout names. Source: image-spec layer.md, "Whiteouts"; the aufs names are docker's
// pkg/archive/whiteouts.go.
const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
	whiteoutPool   = ".wh..wh.plnk"
)

// Meta is the metadata of a file, without its name.
type Meta struct {
	Mode     uint32 // the permission bits with setuid, setgid and sticky: 07777
	UID, GID uint32
	device   device                // 0 for other types
	owners   unique.Handle[owners] // zero for none
	Mtime    time.Time
	Xattrs   map[string]string
}

// owners are the names of a file's user and group.
type owners struct{ user, group string }

// device is the number of a device as mknod(2) stores it: 12 bits of the major number, 20 of the minor one.
// Engines pass on all bits of a tar header.
type device uint32

const minorBits = 20

func newDevice[n int64 | uint32](major, minor n) device {
	return device(uint32(major)<<minorBits | uint32(minor)&(1<<minorBits-1))
}

func (d device) major() int64 { return int64(d >> minorBits) }
func (d device) minor() int64 { return int64(d & (1<<minorBits - 1)) }

// Entry is one member of a layer. It has 144 bytes, and an image has hundreds of thousands of them.
type Entry struct {
	Kind kind
	Flag byte // the tar type flag of KindOther
	// Number is the position of the member in the archive, starting at 1.
	Number uint32
	Name   string // cleaned; of a whiteout, the name that it hides
	Link   string // target: of a symlink as written, of a hard link cleaned
	Size   int64
	Meta   Meta
	ELF    *elfInfo           // nil for files other than 64-bit x86-64 ELF files
	Sum    *[sha256.Size]byte // of a regular file's content, if requested
	Disk   *DiskFile          // of a regular file on disk
}

// layerIndex has the members of one layer, in the order of the archive.
type layerIndex struct {
	Title   string // for messages: "layer sha256:…", or the path of a tarball
	DiffID  v1.Hash
	Entries []*Entry
	// absent is why the layer, or the end of a tarball, was not read, so that its contents are not known; nil if it was.
	absent *absence
}

// readLayer reads one layer and examines its files.
func (s *Session) readLayer(ctx context.Context, l v1.Layer) (_ *layerIndex, err error) {
	if !source.AtHand(l) {
		return absentLayer(l, foreign, s.Progress)
	}
	ls, err := blob.OpenLayer(ctx, l, s.Progress)
	if errors.Is(err, hinterr.ErrNotFound) && source.IsForeign(l) {
		return absentLayer(l, foreign, s.Progress)
	}
	if err != nil {
		return nil, err
	}
	defer ls.Close()
	idx := &layerIndex{Title: "layer " + ls.Name, DiffID: ls.DiffID}
	x := &examiner{S: s, Whiteouts: true}
	defer x.Close()
	head, _ := ls.Peek(blob.ArchiveHead)
	head = bytes.Clone(head)
	if idx.Entries, err = x.ReadEntries(ctx, ls); err == nil {
		return idx, ls.Finish()
	}
	if why := unknownFormat(l, head); why != nil && ctx.Err() == nil {
		return absentLayer(l, why, s.Progress)
	}
	// If the layer does not have its digest, that is the reason.
	return nil, cmp.Or(ls.Finish(), ls.Wrap(err))
}

// ReadEntries reads the members of a tar stream and returns their entries.
func (x *examiner) ReadEntries(ctx context.Context, r io.Reader) ([]*Entry, error) {
	var all []*Entry
	for m, err := range blob.Members(r) {
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e, err := newEntry(m, x.Whiteouts)
		if err != nil {
			return nil, err
		}
		if e == nil {
			continue
		}
		if e.Kind == KindFile || e.Kind == KindPool {
			err := x.content(e, m, m.Content)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = hinterr.Damaged("ends early")
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// newEntry returns the entry of a member; nil for members without a file (global PAX headers, aufs's own files).
func newEntry(h *blob.TarMember, whiteouts bool) (e *Entry, err error) {
	e = &Entry{Name: h.Path, Number: h.Number, Size: h.Size, Meta: NewMeta(h.Header)}
	dir, base := path.Split(h.Path)
	switch {
	case !whiteouts:
	case inPool(h.Path) != "":
		if !h.IsRegular() {
			return nil, nil
		}
		e.Kind, e.Name = KindPool, inPool(h.Path)
		return e, nil
	case base == whiteoutOpaque:
		e.Kind, e.Name = KindOpaque, strings.TrimSuffix(dir, "/")
		return e, nil
	case strings.HasPrefix(base, whiteoutMeta), strings.Contains("/"+dir, "/"+whiteoutMeta):
		return nil, nil
	case strings.HasPrefix(base, whiteoutPrefix):
		hidden := strings.TrimPrefix(base, whiteoutPrefix)
		if hidden == "" || hidden == "." || hidden == ".." {
			return nil, hinterr.Damaged("%s: whiteout of nothing", h.Path)
		}
		e.Kind, e.Name = KindWhiteout, dir+hidden
		return e, nil
	}
	switch {
	case h.IsRegular():
		e.Kind = KindFile
	case h.Typeflag == tar.TypeDir: // or a file whose name ends in a slash (V7): archive/tar
		e.Kind = KindDir
	case h.Typeflag == tar.TypeSymlink:
		e.Kind, e.Link = KindSymlink, h.Linkname
		if len(e.Link) > blob.MaxName {
			return nil, hinterr.Damaged("%s: symlink target of %d bytes, at most %d", h.Path, len(e.Link), blob.MaxName)
		}
	case h.Typeflag == tar.TypeLink:
		e.Kind = kindHardLink
		if e.Link, err = blob.CleanName(h.Linkname); err != nil {
			return nil, fmt.Errorf("%s: hard link: %w", h.Path, err)
		}
	case h.Typeflag == tar.TypeChar, h.Typeflag == tar.TypeBlock, h.Typeflag == tar.TypeFifo:
		e.Kind, e.Flag = KindOther, h.Typeflag
	case h.Typeflag == tar.TypeXGlobalHeader, !whiteouts && (h.Size == 0 || strings.ContainsRune(gnuKinds, rune(h.Typeflag))):
		return nil, nil
	default:
		// POSIX treats unknown kinds as files, and so does tar; docker, containerd and umoci
		// refuse the layer (containerd, archive.createTarFile).
		return nil, hinterr.Damaged("%s: tar entry of type %q, which engines refuse", h.Path, h.Typeflag)
	}
	if e.Name == "" && e.Kind != KindDir {
		return nil, hinterr.Damaged("%q: the root file system is not a directory", h.Name)
	}
	return e, nil
}

// gnuKinds are the members of GNU tar that are not files: the list of names in a directory, and the name of a
// volume (tar.h).
const gnuKinds = "DV"

// inPool returns the name in the hard link pool of aufs, "" for names outside of it.
func inPool(name string) string {
	rest, ok := strings.CutPrefix(name, whiteoutPool+"/")
	if !ok {
		return ""
	}
	return rest
}

// NewMeta returns the metadata in a tar header.
func NewMeta(h *tar.Header) Meta {
	const permissions = 0o7777
	m := Meta{
		Mode: uint32(h.Mode & permissions), UID: uint32(h.Uid), GID: uint32(h.Gid), Mtime: h.ModTime,
		device: newDevice(h.Devmajor, h.Devminor),
	}
	if names := (owners{h.Uname, h.Gname}); names != (owners{}) {
		m.owners = unique.Make(names)
	}
	for k, v := range h.PAXRecords {
		if name, ok := strings.CutPrefix(k, blob.XattrPrefix); ok {
			if m.Xattrs == nil {
				m.Xattrs = map[string]string{}
			}
			m.Xattrs[unique.Make(name).Value()] = v
		}
	}
	return m
}

// absence is why a layer is not read, with a hint.
type absence struct{ why, hint string }

// foreign is the absence of a layer that is stored elsewhere.
var foreign = &absence{"foreign, and not with the image", "download the image from the registry that has its foreign layers, then scan that copy; a layer that is not examined may have call sites"}

// unknownFormat returns why vfix cannot read a layer that does not begin with a tar entry: it is compressed,
// encrypted, or has a foreign media type; nil if the layer should be a tar stream, and is damaged.
func unknownFormat(l v1.Layer, head []byte) *absence {
	if name := blob.OtherCompression(head); name != "" {
		return &absence{"compressed with " + name + ", which vfix does not read",
			"compress the layers with gzip: 'skopeo copy --dest-compress --dest-compress-format gzip SOURCE oci:DIR', then scan that copy"}
	}
	t, err := blob.Underlying(l).MediaType()
	if err != nil || source.IsLayer(t) {
		return nil
	}
	a := &absence{"of media type " + string(t) + ", which vfix does not read", "the image needs a tool of its own; a layer that is not examined may have call sites"}
	if strings.HasSuffix(string(t), "+encrypted") {
		a.hint = "decrypt the layers: 'skopeo copy --decryption-key KEY SOURCE oci:DIR', then scan that copy"
	}
	return a
}

// absentLayer returns the index of a layer that is not read.
func absentLayer(l v1.Layer, why *absence, p progress.Reporter) (*layerIndex, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, err
	}
	progress.Note(p, "layer %s: %s: kept unchanged and not examined", blob.ShortHash(diffID), why.why)
	return &layerIndex{Title: "layer " + blob.ShortHash(diffID), DiffID: diffID, absent: why}, nil
}
