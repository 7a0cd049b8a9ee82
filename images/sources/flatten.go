// The merged file system of an image as one tar stream, for programs that make a squashfs of it.

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

// flattening is one merged file system on its way into a tar stream.
type flattening struct {
	tree   *contents.Tree
	extras []contents.Extra // what is added; each replaces what has its name

	tw     *tar.Writer
	files  wanted
	others map[*contents.Inode]string // symlinks, devices and fifos by the first of their names
	lost   map[string][]string        // names of files by the xattrs that a squashfs has no room for
	err    error
}

// write writes the directories, then what has no content, then files by layers: each is read once more.
func (f *flattening) write(ctx context.Context, w io.Writer) error {
	f.tw, f.files, f.others, f.lost = tar.NewWriter(w), wanted{}, map[*contents.Inode]string{}, map[string][]string{}
	replaced := map[string]bool{}
	for _, e := range f.extras {
		replaced[strings.TrimSuffix(e.Name, "/")] = true
	}
	f.put(".", f.tree.Root)
	f.tree.Walk(func(name string, k *contents.Node) {
		if k.Kids != nil && !replaced[name] {
			f.put(name, k)
		}
	})
	f.tree.Walk(func(name string, k *contents.Node) {
		if k.Kids == nil && !replaced[name] {
			f.note(name, k)
		}
	})
	if f.err != nil {
		return f.err
	}
	if err := f.tree.Read(ctx, slices.Collect(maps.Keys(f.files)), func(i *contents.Inode, r io.Reader) error { return f.file(ctx, i, r) }); err != nil {
		return err
	}
	for _, e := range f.extras {
		if err := e.Write(f.tw); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return f.tw.Close()
}

// note writes symlinks, devices and fifos, and notes regular files.
func (f *flattening) note(name string, k *contents.Node) {
	if f.err != nil || f.files.note(name, k) {
		return
	}
	if first, ok := f.others[k.Inode]; ok {
		f.err = f.link(name, first)
		return
	}
	f.others[k.Inode] = name
	f.put(name, k)
}

// put writes what has no content.
func (f *flattening) put(name string, k *contents.Node) {
	if f.err == nil {
		f.err = contents.WrapPath(name, f.tw.WriteHeader(f.header(name, k.Entry)))
	}
}

// file writes one file under its first name, and links of it under the others.
func (f *flattening) file(ctx context.Context, i *contents.Inode, r io.Reader) error {
	names := f.files[i]
	name := names[0]
	hdr := f.header(name, i.Entry)
	hdr.Typeflag, hdr.Size = tar.TypeReg, i.Size
	if err := f.tw.WriteHeader(hdr); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, err := blob.CopyTo(ctx, f.tw, r, nil); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, other := range names[1:] {
		if err := f.link(other, name); err != nil {
			return err
		}
	}
	return nil
}

func (f *flattening) link(name, first string) error {
	return f.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: first, Format: tar.FormatPAX})
}

// squashXattrs begin the names of the extended attributes that a squashfs can hold (kernel,
// fs/squashfs/squashfs_fs.h, SQUASHFS_XATTR_USER and so on).
var squashXattrs = []string{"user.", "trusted.", "security."}

// header is that of an entry without names of users, which mksquashfs before 4.7.5 looks up on the
// machine that it runs on, and with a time that a squashfs can hold: unsigned seconds in 32 bits.
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

// warnings name the extended attributes that were left out.
func (f *flattening) warnings() []string {
	var all []string
	for _, xattr := range slices.Sorted(maps.Keys(f.lost)) {
		names := f.lost[xattr]
		all = append(all, fmt.Sprintf("%s: %s not kept: a squashfs cannot hold it; files that have it: %d", names[0], xattr, len(names)))
	}
	return all
}
