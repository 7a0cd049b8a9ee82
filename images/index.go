package images

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// What one layer holds, as short as it can be kept: the layer itself is read once, and
// which of its files are visible is known only when all layers have been.

// kind is what a member of a layer is to the merged file system.
type kind uint8

const (
	kindFile kind = iota
	kindDir
	kindSymlink
	kindHardLink
	kindOther    // device or fifo
	kindWhiteout // .wh.NAME hides NAME of the layers below
	kindOpaque   // .wh..wh..opq hides all that the layers below have in its folder
	kindPool     // .wh..wh.plnk/NAME: a name for hard links alone, of images made on aufs
)

// Whiteout names. Source: image-spec layer.md, "Whiteouts"; the aufs names are docker's
// pkg/archive/whiteouts.go.
const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
	whiteoutPool   = ".wh..wh.plnk"
)

// meta is what a file has beside its name and content.
type meta struct {
	mode         int64 // the permission bits with setuid, setgid and sticky: 07777
	uid, gid     int
	uname, gname string
	mtime        time.Time
	xattrs       map[string]string
	major, minor int64
}

// entry is one member of a layer.
type entry struct {
	kind kind
	flag byte   // the tar type flag of kindOther
	name string // cleaned; of a whiteout, the name that it hides
	// number is that of the member in the archive, the first being 1.
	number int
	link   string // target of a symlink as written, of a hard link cleaned
	size   int64
	meta   meta
	elf    *elfInfo           // nil for what is no 64-bit x86-64 ELF file
	sum    *[sha256.Size]byte // of a regular file's content, where asked for
	kept   *io.SectionReader  // the content, where it is kept beside that of elf
}

// layerIndex is what one layer holds, in the order of the archive.
type layerIndex struct {
	title   string // for messages: "layer sha256:…", or the path of a tarball
	diffID  v1.Hash
	entries []entry
}

// readLayer reads one layer from start to end and examines its files.
func (s *session) readLayer(ctx context.Context, l v1.Layer) (_ *layerIndex, err error) {
	if !atHand(l) {
		return foreignLayer(l, s.progress)
	}
	ls, err := openLayer(ctx, l, s.progress)
	if errors.Is(err, ErrNotFound) && isForeign(l) {
		return foreignLayer(l, s.progress)
	}
	if err != nil {
		return nil, err
	}
	defer ls.Close()
	idx := &layerIndex{title: "layer " + ls.name, diffID: ls.diffID}
	x := &examiner{s: s, whiteouts: true}
	defer x.Close()
	if idx.entries, err = x.readEntries(ctx, ls); err != nil {
		return nil, ls.wrap(err)
	}
	return idx, ls.finish()
}

// readEntries reads the members of a tar stream.
func (x *examiner) readEntries(ctx context.Context, r io.Reader) ([]entry, error) {
	tr := newMemberReader(r)
	names := interner{}
	var all []entry
	for {
		h, err := tr.next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e, ok, err := newEntry(h, names, x.whiteouts)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if e.kind == kindFile || e.kind == kindPool {
			err := x.content(&e, h, tr)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = damaged("ends early")
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
		}
		all = append(all, e)
	}
}

// interner makes equal strings one: owner names repeat in every member.
type interner map[string]string

func (i interner) of(s string) string {
	if t, ok := i[s]; ok {
		return t
	}
	s = strings.Clone(s)
	i[s] = s
	return s
}

// newEntry makes the entry of a member; ok is false for members that mean nothing here
// (global PAX headers, aufs's own files).
func newEntry(h *tarMember, names interner, whiteouts bool) (e entry, ok bool, err error) {
	e = entry{name: h.name, number: h.number, size: h.Size, meta: newMeta(h.Header, names)}
	dir, base := path.Split(h.name)
	switch {
	case !whiteouts:
	case inPool(h.name) != "":
		e.kind, e.name = kindPool, inPool(h.name)
		return e, h.isRegular(), nil
	case base == whiteoutOpaque:
		e.kind, e.name = kindOpaque, strings.TrimSuffix(dir, "/")
		return e, true, nil
	case strings.HasPrefix(base, whiteoutMeta), strings.Contains("/"+dir, "/"+whiteoutMeta):
		return e, false, nil
	case strings.HasPrefix(base, whiteoutPrefix):
		hidden := strings.TrimPrefix(base, whiteoutPrefix)
		if hidden == "" || hidden == "." || hidden == ".." {
			return e, false, damaged("%s: whiteout of nothing", h.name)
		}
		e.kind, e.name = kindWhiteout, dir+hidden
		return e, true, nil
	}
	switch {
	case h.isRegular():
		e.kind = kindFile
	case h.Typeflag == tar.TypeDir: // or a file whose name ends in a slash (V7): archive/tar
		e.kind = kindDir
	case h.Typeflag == tar.TypeSymlink:
		e.kind, e.link = kindSymlink, h.Linkname
		if len(e.link) > maxName {
			return e, false, damaged("%s: symlink target of %d bytes, at most %d", h.name, len(e.link), maxName)
		}
	case h.Typeflag == tar.TypeLink:
		e.kind = kindHardLink
		if e.link, err = cleanName(h.Linkname); err != nil {
			return e, false, fmt.Errorf("%s: hard link: %w", h.name, err)
		}
	case h.Typeflag == tar.TypeChar, h.Typeflag == tar.TypeBlock, h.Typeflag == tar.TypeFifo:
		e.kind, e.flag = kindOther, h.Typeflag
	default:
		return e, false, nil
	}
	if e.name == "" && e.kind != kindDir {
		return e, false, damaged("%q: the root file system is not a folder", h.Name)
	}
	return e, true, nil
}

// inPool returns the name in aufs's pool of hard links, "" for what is not in it.
func inPool(name string) string {
	rest, ok := strings.CutPrefix(name, whiteoutPool+"/")
	if !ok {
		return ""
	}
	return rest
}

func newMeta(h *tar.Header, names interner) meta {
	const permissions = 0o7777
	m := meta{
		mode: h.Mode & permissions, uid: h.Uid, gid: h.Gid, uname: names.of(h.Uname), gname: names.of(h.Gname),
		mtime: h.ModTime, major: h.Devmajor, minor: h.Devminor,
	}
	for k, v := range h.PAXRecords {
		if name, ok := strings.CutPrefix(k, xattrPrefix); ok {
			if m.xattrs == nil {
				m.xattrs = map[string]string{}
			}
			m.xattrs[names.of(name)] = v
		}
	}
	return m
}
