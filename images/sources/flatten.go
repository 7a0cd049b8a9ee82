// The merged file system of an image as one tar stream, for programs that make a squashfs from it.

package sources

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
)

// flattening is the conversion of one merged file system to a tar stream.
type flattening struct {
	tree   *contents.Tree
	extras []contents.Extra // added files; each replaces a file with its name

	tw   *tar.Writer
	lost map[string][]string // names of files by the xattrs that a squashfs cannot have
	err  error
}

// write writes the directories, then files without content, then files layer by layer: each layer is read once
// more.
func (f *flattening) write(ctx context.Context, w io.Writer) error {
	f.tw, f.lost = tar.NewWriter(w), map[string][]string{}
	replaced := map[string]bool{}
	for _, e := range f.extras {
		replaced[strings.TrimSuffix(e.Name, "/")] = true
	}
	f.put(".", f.tree.Root.Entry)
	f.tree.Walk(func(name string, k *contents.Node) {
		if k.Kids != nil && !replaced[name] {
			f.put(name, k.Entry)
		}
	})
	files := map[*contents.Inode][]string{}
	for _, v := range f.tree.Files(func(*contents.Inode) bool { return true }) {
		switch names := slices.DeleteFunc(v.Names, func(name string) bool { return replaced[name] }); {
		case len(names) == 0:
		case v.HasContent():
			files[v.Inode] = names
		default:
			f.put(names[0], v.Entry)
			f.links(names)
		}
	}
	if f.err != nil {
		return f.err
	}
	err := f.tree.Read(ctx, slices.Collect(maps.Keys(files)), func(i *contents.Inode, r io.Reader) error {
		name := files[i][0]
		m := contents.Member{Header: f.header(name, i.Entry), Content: func() io.Reader { return r }}
		if f.err = contents.WrapPath(name, m.Write(ctx, f.tw)); f.err == nil {
			f.links(files[i])
		}
		return f.err
	})
	if err != nil {
		return err
	}
	for _, e := range f.extras {
		if err := e.Member().Write(ctx, f.tw); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return f.tw.Close()
}

func (f *flattening) put(name string, e *contents.Entry) {
	if f.err == nil {
		f.err = contents.WrapPath(name, f.tw.WriteHeader(f.header(name, e)))
	}
}

func (f *flattening) links(names []string) {
	for _, name := range names[1:] {
		if f.err == nil {
			f.err = f.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: names[0], Format: tar.FormatPAX})
		}
	}
}

// squashXattrs are prefixes of the extended attributes that a squashfs can have (kernel,
// fs/squashfs/squashfs_fs.h, SQUASHFS_XATTR_USER and so on).
var squashXattrs = []string{"user.", "trusted.", "security."}

// header returns the header of an entry without user names, which mksquashfs before 4.7.5 looks up on its machine,
// and with a time that a squashfs can have: unsigned seconds in 32 bits.
func (f *flattening) header(name string, e *contents.Entry) *tar.Header {
	hdr := e.Header(name)
	hdr.Uname, hdr.Gname = "", ""
	hdr.ModTime = time.Unix(min(max(hdr.ModTime.Unix(), 0), math.MaxUint32), 0)
	for key := range hdr.PAXRecords {
		xattr := strings.TrimPrefix(key, blob.XattrPrefix)
		if !slices.ContainsFunc(squashXattrs, func(p string) bool { return strings.HasPrefix(xattr, p) }) {
			delete(hdr.PAXRecords, key)
			f.lost[xattr] = append(f.lost[xattr], name)
		}
	}
	return hdr
}

// warnings lists the extended attributes that were omitted.
func (f *flattening) warnings() []string {
	var all []string
	for _, xattr := range slices.Sorted(maps.Keys(f.lost)) {
		names := f.lost[xattr]
		all = append(all, fmt.Sprintf("%s: %s not kept: a squashfs cannot hold it; files that have it: %d", names[0], xattr, len(names)))
	}
	return all
}
