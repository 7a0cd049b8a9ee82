package images

import (
	"bytes"
	"context"
	"crypto/md5" // what dpkg records, not a proof of anything
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// dpkg's record of what its packages' files contain: /var/lib/dpkg/info/PACKAGE.md5sums,
// where PACKAGE is NAME, or NAME:ARCH of one that may be there for several architectures
// (dpkg, lib/dpkg/db-ctrl-access.c). A line is an MD5 in hex, two spaces and a path without
// a leading slash (deb-md5sums(5)). The path is the package's: on a system with a merged
// /usr it goes through a symlink. dpkg --verify and debsums compare with it.
//
// conffiles stand in the file status instead; no program is one.

// md5Folders are where the files are; the second is distroless images'.
var md5Folders = []string{"var/lib/dpkg/info/", "var/lib/dpkg/status.d/"}

const (
	md5Suffix = ".md5sums"
	// maxMD5Sums is the largest such file that is read, in bytes. The largest in Debian 12,
	// of a package of icons, has 3 MiB.
	maxMD5Sums = 32 << 20
	md5Digits  = 2 * md5.Size
)

// isMD5Sums reports whether a name is that of a file of md5sums, and of which package.
func isMD5Sums(name string) (pkg string, ok bool) {
	for _, dir := range md5Folders {
		if base, ok := strings.CutPrefix(name, dir); ok && !strings.Contains(base, "/") {
			return strings.CutSuffix(base, md5Suffix)
		}
	}
	return "", false
}

// isDpkgRecord reports whether a file is one of md5sums that is read.
func isDpkgRecord(name string, size int64) bool {
	_, ok := isMD5Sums(name)
	return ok && size <= maxMD5Sums
}

// md5Change is what becomes of one file: its MD5 before and after, in hex.
type md5Change struct {
	path          string // as the findings have it
	before, after string
}

// md5Line is one line about a changed file.
type md5Line struct {
	change *md5Change
	agrees bool // it has the file's MD5 from before
}

// correctMD5Sums finds the lines about changed files, and returns the content in which those
// that agreed with the files before do so again. lookup tells which change, if any, there
// is of the file with a path.
func correctMD5Sums(content []byte, lookup func(string) *md5Change) (corrected []byte, lines []md5Line) {
	corrected = bytes.Clone(content)
	at := 0
	for line := range bytes.Lines(content) {
		start := at
		at += len(line)
		sum, name, ok := parseMD5Line(line)
		if !ok {
			continue
		}
		c := lookup(name)
		if c == nil {
			continue
		}
		l := md5Line{c, sum == c.before}
		if l.agrees {
			copy(corrected[start:], c.after)
		}
		lines = append(lines, l)
	}
	return corrected, lines
}

// parseMD5Line takes a line apart; ok is false for what is none.
func parseMD5Line(line []byte) (sum, name string, ok bool) {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) < md5Digits+3 || line[md5Digits] != ' ' || line[md5Digits+1] != ' ' && line[md5Digits+1] != '*' {
		return "", "", false
	}
	sum = string(line[:md5Digits])
	if raw, err := hex.DecodeString(sum); err != nil || hex.EncodeToString(raw) != sum {
		return "", "", false
	}
	return sum, path.Clean(strings.TrimLeft(string(line[md5Digits+2:]), "/")), true
}

// fileChanges looks paths of packages up among changed files of a merged file system.
type fileChanges struct {
	t       *merged
	byInode map[*inode]*md5Change
	// bases are the last components of the changed files' names, which alone are looked up;
	// nil: all are.
	bases map[string]bool
}

func newFileChanges(t *merged) *fileChanges {
	return &fileChanges{t: t, byInode: map[*inode]*md5Change{}, bases: map[string]bool{}}
}

// add notes that a file with these names changed.
func (f *fileChanges) add(i *inode, names []string, before, after string) {
	f.byInode[i] = &md5Change{names[0], before, after}
	for _, n := range names {
		if f.bases != nil {
			f.bases[path.Base(n)] = true
		}
	}
}

// lookup follows the symlinks of a path's folders, not one that the path itself is:
// packages list a symlink's target under its own name.
func (f *fileChanges) lookup(name string) *md5Change {
	dir, base := path.Split(name)
	if f.bases != nil && !f.bases[base] {
		return nil
	}
	d, err := f.t.dir(dir, 0, false)
	if err != nil || d == nil || d.kids[base] == nil {
		return nil
	}
	return f.byInode[d.kids[base].inode]
}

// md5Of reads r to its end.
func md5Of(r io.Reader) (string, error) {
	h := md5.New()
	_, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

// PackageFile is a patched file that a package database has a record of.
type PackageFile struct {
	Path     string // of the patched file
	Manager  string // "dpkg" or "rpm"
	Package  string // its name in the database; "" where that was not found out
	Database string // the file that has the record
	// Corrected says that the record was made to agree with the patched file.
	Corrected bool
	// Stale says that the record did not agree with the file before, either.
	Stale bool
}

// dpkgRecords finds dpkg's records of the patched files, and the corrected databases.
func dpkgRecords(ctx context.Context, s *session, t *merged, hits []hit) (files []PackageFile, corrected []extra, err error) {
	databases := map[string]*inode{}
	var wanted []*inode
	for _, dir := range md5Folders {
		d := t.at(strings.TrimSuffix(dir, "/"))
		if d == nil {
			continue
		}
		for _, base := range sortedKeys(d.kids) {
			k := d.kids[base]
			if k.kind == kindFile && isDpkgRecord(dir+base, k.size) {
				databases[dir+base] = k.inode
				wanted = append(wanted, k.inode)
			}
		}
	}
	if len(wanted) == 0 || len(hits) == 0 {
		return nil, nil, nil
	}
	changes := newFileChanges(t)
	for _, h := range hits {
		before, err := md5Of(io.NewSectionReader(h.elf.content, 0, h.size))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", h.names[0], err)
		}
		after, err := md5Of(h.plan.Apply(h.elf.content))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", h.names[0], err)
		}
		changes.add(h.inode, h.names, before, after)
	}
	got, err := s.fetchLayers(t)(ctx, wanted)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range sortedKeys(databases) {
		i := databases[name]
		content, err := io.ReadAll(io.NewSectionReader(got[i], 0, i.size))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		body, lines := correctMD5Sums(content, changes.lookup)
		pkg, _ := isMD5Sums(name)
		for _, l := range lines {
			files = append(files, PackageFile{Path: l.change.path, Manager: "dpkg", Package: pkg, Database: name, Stale: !l.agrees})
		}
		if !bytes.Equal(body, content) {
			was, _ := hashOf(bytes.NewReader(content))
			corrected = append(corrected, extra{name: name, body: body, like: &i.meta, was: &was})
		}
	}
	return files, corrected, nil
}

// addPair notes a file that was proved to differ in call sites only.
func addPair(f *fileChanges, p pair, before, after *io.SectionReader) error {
	was, err := md5Of(io.NewSectionReader(before, 0, before.Size()))
	if err != nil {
		return err
	}
	is, err := md5Of(io.NewSectionReader(after, 0, after.Size()))
	if err != nil {
		return err
	}
	f.add(p.base, []string{p.name}, was, is)
	f.bases = nil // of other names nothing is known here: all are looked up
	return nil
}

// databases proves that changed files of md5sums are what --update-dpkg makes of the base's:
// corrected where a proved file's record was, and nowhere else.
func (v *verification) databases(changed []pair, proved *fileChanges, before, after map[*inode]*io.SectionReader) error {
	for _, p := range changed {
		if p.after.size > maxMD5Sums || p.base.size > maxMD5Sums {
			v.problem("%s: not compared: larger than %d bytes", p.name, int64(maxMD5Sums))
			continue
		}
		was, err := io.ReadAll(io.NewSectionReader(before[p.base], 0, p.base.size))
		if err != nil {
			return err
		}
		is, err := io.ReadAll(io.NewSectionReader(after[p.after], 0, p.after.size))
		if err != nil {
			return err
		}
		if want, _ := correctMD5Sums(was, proved.lookup); !bytes.Equal(is, want) {
			v.problem("%s: changed, and not in the md5sums of patched files alone", p.name)
			continue
		}
		v.out.Corrected = append(v.out.Corrected, p.name)
	}
	return nil
}
