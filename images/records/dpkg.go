// dpkg's record of what its packages' files contain: /var/lib/dpkg/info/PACKAGE.md5sums,
// where PACKAGE is NAME, or NAME:ARCH of one that may be there for several architectures
// (dpkg, lib/dpkg/db-ctrl-access.c). A line is an MD5 in hex, two spaces and a path without
// a leading slash (deb-md5sums(5)). The path is the package's: on a system with a merged
// /usr it goes through a symlink. dpkg --verify and debsums compare with it.
//
// conffiles are in the file status instead; no program is one.

package records

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
)

// md5Dirs are where the files are; the second is distroless images'.
var md5Dirs = []string{"var/lib/dpkg/info/", "var/lib/dpkg/status.d/"}

const (
	md5Suffix = ".md5sums"
	// maxMD5Sums is the largest such file that is read, in bytes. The largest in Debian 12,
	// of a package of icons, has 3 MiB.
	maxMD5Sums = 32 << 20
	md5Digits  = 2 * md5.Size
)

// IsMD5Sums reports whether a name is that of a file of md5sums, and of which package.
func IsMD5Sums(name string) (pkg string, ok bool) {
	for _, dir := range md5Dirs {
		if base, ok := strings.CutPrefix(name, dir); ok && !strings.Contains(base, "/") {
			return strings.CutSuffix(base, md5Suffix)
		}
	}
	return "", false
}

// IsDpkgRecord reports whether a file is one of md5sums that is read.
func IsDpkgRecord(name string, size int64) bool {
	_, ok := IsMD5Sums(name)
	return ok && size <= maxMD5Sums
}

// md5Change is what becomes of one file: its MD5 before and after, in hex.
type md5Change struct {
	Path          string // as in the findings
	Before, After string
}

// md5Line is one line about a changed file.
type md5Line struct {
	change *md5Change
	Agrees bool // it has the file's MD5 from before
}

// CorrectMD5Sums finds the lines about changed files, and returns the content in which those
// that agreed with the files before do so again. lookup returns which change, if any, there
// is of the file with a path.
func CorrectMD5Sums(content []byte, lookup func(string) *md5Change) (corrected []byte, lines []md5Line) {
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
		l := md5Line{c, sum == c.Before}
		if l.Agrees {
			copy(corrected[start:], c.After)
		}
		lines = append(lines, l)
	}
	return corrected, lines
}

// parseMD5Line takes a line apart; ok is false for other lines.
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
	t       *contents.Tree
	byInode map[*contents.Inode]*md5Change
	bases   map[string]bool // last components of the changed files' names, which alone are looked up
}

// add notes that a file with these names changed.
func (f *fileChanges) add(i *contents.Inode, names []string, before, after string) {
	f.byInode[i] = &md5Change{names[0], before, after}
	for _, n := range names {
		f.bases[path.Base(n)] = true
	}
}

// lookup follows the symlinks of a path's directories, not one that the path itself is:
// packages list a symlink's target under its own name.
func (f *fileChanges) lookup(name string) *md5Change {
	dir, base := path.Split(name)
	if !f.bases[base] {
		return nil
	}
	d, err := f.t.Dir(dir, 0, false)
	if err != nil || d == nil || d.Kids[base] == nil {
		return nil
	}
	return f.byInode[d.Kids[base].Inode]
}

func md5Of(r io.Reader) (string, error) {
	h := md5.New()
	_, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

// Record is of a patched file that a package database has a record of.
type Record struct {
	Path     string `json:"path"`     // of the patched file
	Manager  string `json:"manager"`  // "dpkg" or "rpm"
	Package  string `json:"package"`  // its name in the database; "" if that was not found out
	Database string `json:"database"` // the file that has the record
	// Corrected says that the record was made to agree with the patched file.
	Corrected bool `json:"corrected"`
	// Stale says that the record did not agree with the file before, either.
	Stale bool `json:"stale"`
}

// DpkgRecords finds dpkg's records of the patched files, and the corrected databases.
func DpkgRecords(ctx context.Context, sub *contents.Subject, targets []contents.Target) (files []Record, corrected []contents.Extra, err error) {
	databases := map[string]*contents.Inode{}
	for _, dir := range md5Dirs {
		d := sub.T.At(strings.TrimSuffix(dir, "/"))
		if d == nil {
			continue
		}
		for base, k := range d.Kids {
			if k.Kind == contents.KindFile && IsDpkgRecord(dir+base, k.Size) {
				databases[dir+base] = k.Inode
			}
		}
	}
	if len(databases) == 0 {
		return nil, nil, nil
	}
	changes := &fileChanges{sub.T, map[*contents.Inode]*md5Change{}, map[string]bool{}}
	for _, h := range targets {
		before, err := md5Of(io.NewSectionReader(h.ELF.Content, 0, h.Size))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", h.Names[0], err)
		}
		after, err := md5Of(h.Plan.Apply(h.ELF.Content))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", h.Names[0], err)
		}
		changes.add(h.Inode, h.Names, before, after)
	}
	err = sub.T.EachContent(ctx, databases, func(name string, content []byte) {
		body, lines := CorrectMD5Sums(content, changes.lookup)
		pkg, _ := IsMD5Sums(name)
		for _, l := range lines {
			files = append(files, Record{Path: l.change.Path, Manager: "dpkg", Package: pkg, Database: name, Stale: !l.Agrees})
		}
		if !bytes.Equal(body, content) {
			was, _ := blob.HashOf(bytes.NewReader(content))
			corrected = append(corrected, contents.Extra{Name: name, Body: body, Like: &databases[name].Meta, Was: &was})
		}
	})
	return files, corrected, err
}
