// Entries: the files of layers, tarballs and directories, as tar headers.

package contents

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unique"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/internal/hinterr"
)

// Entry is one file. An image has hundreds of thousands of them. Its header has what file systems keep of a file, under
// the cleaned name, and nothing else: type, size of a regular file, owner, permissions, time, and extended attributes
// as PAX records. The type of every regular file is tar.TypeReg; the target of a hard link is cleaned.
type Entry struct {
	tar.Header
	// Number is the position of the member in the archive, starting at 1.
	Number uint32
	ELF    *elfInfo    // nil for files other than 64-bit x86-64 ELF files
	Disk   fs.FileInfo // of a regular file on disk
}

// The types of entries that hide others; Name is the hidden name, or the directory whose contents are hidden.
const (
	typeWhiteout = 'w' // .wh.NAME hides NAME of the layers below
	typeOpaque   = 'o' // .wh..wh..opq hides the contents of its directory in the layers below
)

// Whiteout names. Source: image-spec layer.md, "Whiteouts"; the aufs names are docker's
// pkg/archive/whiteouts.go.
const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
	whiteoutPool   = ".wh..wh.plnk/" // targets only for hard links, in images made on aufs
)

// ImplicitDir is a directory without an entry in any layer: engines create it for root with this mode (containerd
// archive.mkparent; docker since 20.10). archive/tar writes and reads its time as none.
var ImplicitDir = &Entry{Header: tar.Header{Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}}

// capability is the record of the xattr that each change of the owner removes (Linux, notify_change).
const capability = blob.XattrPrefix + "security.capability"

// cleaned returns what a file system keeps of a header, under another name. mknod(2) stores 12 bits of the major number
// of a device, and 20 of the minor one; engines pass on all bits. PAX has xattrs, long names and fractions of a second;
// archive/tar writes records only if they are needed.
func cleaned(h *tar.Header, name string) tar.Header {
	const permissions, major, minor = 0o7777, 1<<12 - 1, 1<<20 - 1
	c := tar.Header{
		Typeflag: h.Typeflag, Name: name, Mode: h.Mode & permissions, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime,
		Uname: unique.Make(h.Uname).Value(), Gname: unique.Make(h.Gname).Value(), Format: tar.FormatPAX,
	}
	switch h.Typeflag {
	case tar.TypeReg:
		c.Size = h.Size
	case tar.TypeSymlink:
		c.Linkname = h.Linkname
	case tar.TypeChar, tar.TypeBlock:
		c.Devmajor, c.Devminor = h.Devmajor&major, h.Devminor&minor
	}
	for k, v := range h.PAXRecords {
		if strings.HasPrefix(k, blob.XattrPrefix) {
			if c.PAXRecords == nil {
				c.PAXRecords = map[string]string{}
			}
			c.PAXRecords[unique.Make(k).Value()] = v
		}
	}
	return c
}

// newEntry returns the entry of a member; nil for members without a file (global PAX headers, aufs's own files).
func newEntry(m *blob.TarMember, whiteouts bool) (e *Entry, err error) {
	if m.IsRegular() {
		m.Typeflag = tar.TypeReg
	}
	e = &Entry{Header: cleaned(m.Header, m.Path), Number: m.Number}
	dir, base := path.Split(m.Path)
	switch {
	case !whiteouts:
	case base == whiteoutOpaque:
		e.Typeflag, e.Name = typeOpaque, strings.TrimSuffix(dir, "/")
		return e, nil
	case strings.HasPrefix(m.Path, whiteoutPool) && m.IsRegular():
		return e, nil
	case strings.HasPrefix(base, whiteoutMeta), strings.Contains("/"+dir, "/"+whiteoutMeta):
		return nil, nil
	case strings.HasPrefix(base, whiteoutPrefix):
		hidden := strings.TrimPrefix(base, whiteoutPrefix)
		if hidden == "" || hidden == "." || hidden == ".." {
			return nil, hinterr.Damaged("%s: whiteout of nothing", m.Path)
		}
		e.Typeflag, e.Name = typeWhiteout, dir+hidden
		return e, nil
	}
	switch m.Typeflag {
	case tar.TypeReg, tar.TypeDir: // or a file whose name ends in a slash (V7): archive/tar
	case tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
	case tar.TypeLink:
		if e.Linkname, err = blob.CleanName(m.Linkname); err != nil {
			return nil, fmt.Errorf("%s: hard link: %w", m.Path, err)
		}
	default:
		if m.Typeflag == tar.TypeXGlobalHeader {
			return nil, nil
		}
		// POSIX treats unknown kinds as files, and so does tar; docker, containerd and umoci
		// refuse the layer (containerd, archive.createTarFile).
		return nil, hinterr.Damaged("%s: tar entry of type %q, which engines refuse", m.Path, m.Typeflag)
	}
	if e.Name == "" && e.Typeflag != tar.TypeDir {
		return nil, hinterr.Damaged("%q: the root file system is not a directory", m.Name)
	}
	return e, nil
}

// HasContent reports whether the entry is a regular file.
func (e *Entry) HasContent() bool { return e.Typeflag == tar.TypeReg }

// As returns the header of the entry under a name.
func (e *Entry) As(name string) *tar.Header {
	h := e.Header
	if h.Name = name; h.Typeflag == tar.TypeDir {
		h.Name += "/"
	}
	return &h
}

// linkAs returns the header of a hard link to the entry. The file has its xattrs already, but loses its capabilities
// when the owner of the link is set.
func (e *Entry) linkAs(name, target string) *tar.Header {
	h := e.Header
	h.Name, h.Typeflag, h.Linkname, h.Size, h.Devmajor, h.Devminor = name, tar.TypeLink, target, 0, 0, 0
	h.PAXRecords = nil
	if c, ok := e.PAXRecords[capability]; ok {
		h.PAXRecords = map[string]string{capability: c}
	}
	return &h
}

// xattrs returns the names of the extended attributes, sorted.
func (e *Entry) xattrs() []string {
	names := SortedKeys(e.PAXRecords)
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], blob.XattrPrefix)
	}
	return names
}

// Marks returns the names of the xattrs that vouch for the file's content, sorted: a patched copy does not keep them.
func (e *Entry) Marks() []string {
	return slices.DeleteFunc(e.xattrs(), func(name string) bool { return !filecopy.IsMark(name) })
}

// unmarked returns the entry after a change of its content.
func (e *Entry) unmarked() *Entry {
	u := *e
	u.PAXRecords = maps.Clone(e.PAXRecords)
	for _, name := range e.Marks() {
		delete(u.PAXRecords, blob.XattrPrefix+name)
	}
	return &u
}

// MarkWarning returns the warning about marks that a patched file does not keep.
func MarkWarning(dropped []string) string {
	return strings.Join(dropped, ", ") + " dropped: it vouches for the content before; where the kernel appraises files, sign the patched one"
}

// losesVDSO reports whether a program with this metadata may not find the vDSO: the loader of a program that gains
// privileges rewrites its environment, and runtimes of Go before 1.16 then read another auxiliary vector.
func (e *Entry) losesVDSO() bool {
	const setuid = 0o4000
	return e.Mode&setuid != 0 && e.Uid != 0 || e.PAXRecords[capability] != ""
}
