// rpm's records of patched files. They are signed, and stay as they are.

package records

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/packages"
)

// maxRPM is the largest rpm database that is read, in bytes. CentOS's with everything
// installed has some 200 MB.
const maxRPM = 1 << 30

// RpmRecords finds rpm's records of the patched files. Their digests are in the headers of
// packages, which are signed: they stay as they are.
func RpmRecords(ctx context.Context, sub *contents.Subject, targets []contents.Target) ([]Record, error) {
	var wanted []*contents.Inode
	databases := fewFiles{}
	names := map[*contents.Inode]string{}
	for _, name := range packages.RPMDatabases() {
		if k := sub.T.At(name); k != nil && k.Kind == contents.KindFile && k.Size <= maxRPM {
			wanted = append(wanted, k.Inode)
			names[k.Inode] = name
		}
	}
	if len(wanted) == 0 || len(targets) == 0 {
		return nil, nil
	}
	got, err := sub.T.Fetch(ctx, wanted)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		databases[name] = got[i]
	}
	var files []string
	for _, h := range targets {
		files = append(files, h.Names...)
	}
	owners, err := packages.RPMOwners(databases, files)
	var all []Record
	for _, h := range targets {
		for _, name := range h.Names {
			if owners[name] != "" {
				all = append(all, Record{Path: name, Manager: "rpm", Package: owners[name], Database: names[wanted[0]]})
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("rpm's database: %w", err)
	}
	return all, err
}

// fewFiles is a file system of a few files, by name.
type fewFiles map[string]*io.SectionReader

func (f fewFiles) Open(name string) (fs.File, error) {
	r, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return sectionFile{io.NewSectionReader(r, 0, r.Size()), path.Base(name)}, nil
}

// sectionFile is one of them: a file that is read only.
type sectionFile struct {
	*io.SectionReader
	name string
}

func (f sectionFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f sectionFile) Close() error               { return nil }
func (f sectionFile) Name() string               { return f.name }
func (f sectionFile) Mode() fs.FileMode          { return 0o444 }
func (f sectionFile) ModTime() time.Time         { return time.Time{} }
func (f sectionFile) IsDir() bool                { return false }
func (f sectionFile) Sys() any                   { return nil }
