package contents

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/rewriter/patch"
)

// The attributes of a tarball's members hide nothing, and its root is a directory.
func TestEntriesOfTarballs(t *testing.T) {
	h := &tar.Header{Name: "usr/", Typeflag: tar.TypeDir, PAXRecords: map[string]string{blob.XattrPrefix + "user.overlay.redirect": "/x"}}
	if e, err := newEntry(&blob.TarMember{Header: h, Path: "usr"}, false); err != nil || e.Typeflag != tar.TypeDir {
		t.Errorf("got %v, %v, want a directory", e, err)
	}
	for flag, ok := range map[byte]bool{tar.TypeDir: true, tar.TypeReg: false, tar.TypeSymlink: false} {
		h := &tar.Header{Name: "./", Typeflag: flag}
		if e, err := newEntry(&blob.TarMember{Header: h}, false); (e != nil) != ok || (err == nil) != ok {
			t.Errorf("%q: got %v, %v", flag, e, err)
		}
	}
}

// The kernel runs 64-bit ELF files of this machine alone.
func TestIsELF(t *testing.T) {
	head := func(magic string, machine ...byte) []byte {
		return append(append([]byte(magic), make([]byte, 14)...), machine...)
	}
	for _, c := range []struct {
		head []byte
		want bool
	}{
		{head("\x7fELF", 62, 0), true}, {head("\x7fELF", 3, 0), false}, {head("\x7fELF", 62, 1), false},
		{head("\x7fELF", 62), false}, {head("\x7fELG", 62, 0), false}, {head("!<arch>\n"), false}, {nil, false},
	} {
		if got := isELF(c.head); got != c.want {
			t.Errorf("%q: got %v", c.head, got)
		}
	}
}

// Each kind of member, and a hard link to a name that is too long.
func TestEntryKinds(t *testing.T) {
	for _, c := range []struct {
		flag byte
		link string
		want byte
		ok   bool
	}{
		{tar.TypeReg, "", tar.TypeReg, true}, {tar.TypeGNUSparse, "", tar.TypeReg, true}, {0, "", tar.TypeReg, true}, {tar.TypeDir, "", tar.TypeDir, true},
		{tar.TypeLink, "./x", tar.TypeLink, true}, {tar.TypeSymlink, "x", tar.TypeSymlink, true},
		{tar.TypeChar, "", tar.TypeChar, true}, {tar.TypeBlock, "", tar.TypeBlock, true}, {tar.TypeFifo, "", tar.TypeFifo, true},
		{tar.TypeLink, strings.Repeat("x", blob.MaxName+1), 0, false},
	} {
		e, err := newEntry(&blob.TarMember{Header: &tar.Header{Name: "a", Typeflag: c.flag, Linkname: c.link}, Path: "a"}, true)
		if (err == nil) != c.ok || c.ok && (e.Typeflag != c.want || e.Name != "a" || e.Linkname != strings.TrimPrefix(c.link, "./")) {
			t.Errorf("%c to %.9q: got %+v, %v", c.flag, c.link, e, err)
		}
	}
}

// A program without a slash is one of the directories of programs, and not one of the root; vfix-trace starts another.
func TestStarts(t *testing.T) {
	tree := NewTree()
	init := &Inode{&Entry{Header: tar.Header{Name: "init"}}, 0}
	tree.nodes["init"], tree.nodes["sbin/linked"], tree.nodes["sbin/other"] = &Node{Inode: init}, &Node{Inode: init}, &Node{Inode: &Inode{init.Entry, 0}}
	for command, want := range map[string]bool{
		"": false, "init": false, "/init": true, "./init x": true, "/bin/init": false, "linked": true, "other": false, "/other /init": false, addedfiles.TracePath + " /init": true,
	} {
		tree.Config.Cmd = strings.Fields(command)
		if got := tree.starts(init); got != want {
			t.Errorf("%s: got %v", command, got)
		}
	}
}

// A file that is too large is not read, and its verdict says so.
func TestTooLarge(t *testing.T) {
	head := append([]byte(elfMagic), make([]byte, elfHead)...)
	s := NewSession(1, nil, patch.Options{})
	defer s.Close()
	x := &examiner{S: s}
	defer x.Close()
	e := &Entry{Header: tar.Header{Name: "x", Size: MaxELF + 1}}
	if err := x.content(e, bytes.NewReader(head)); err != nil || !e.ELF.unread || !strings.HasPrefix(e.ELF.passed, "file of 4294967297 bytes") {
		t.Errorf("got %+v, %v", e.ELF, err)
	}
	e.Size = MaxELF
	if err := x.content(e, bytes.NewReader(head)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the largest that is read: got %+v, %v", e.ELF, err)
	}
}

// The marks of a file are listed in order, and only they are removed.
func TestMarks(t *testing.T) {
	for range 20 { // maps are in any order
		e := &Entry{Header: tar.Header{PAXRecords: map[string]string{blob.XattrPrefix + "security.ima": "1", blob.XattrPrefix + "security.evm": "2", blob.XattrPrefix + "user.a": "3"}}}
		if got := e.Marks(); !slices.Equal(got, []string{"security.evm", "security.ima"}) {
			t.Fatalf("got %q", got)
		}
		if u := e.unmarked(); !maps.Equal(u.PAXRecords, map[string]string{blob.XattrPrefix + "user.a": "3"}) || len(e.PAXRecords) != 3 {
			t.Fatalf("got %v, of %v", u.PAXRecords, e.PAXRecords)
		}
	}
}

// A source without ELF files is not complete: it may not be what was meant.
func TestComplete(t *testing.T) {
	for _, c := range []struct {
		elf    int
		passed []Passed
		want   bool
	}{
		{0, nil, false}, {1, nil, true}, {0, []Passed{{Path: "x"}}, false}, {1, []Passed{{Path: "x"}}, true},
		{1, []Passed{{Path: "x", Unread: true}}, false},
	} {
		if got := (&Findings{ELFFiles: c.elf, Passed: c.passed}).Complete(); got != c.want {
			t.Errorf("%d ELF files, %+v: got %v", c.elf, c.passed, got)
		}
	}
}

// Findings of several sources are added up.
func TestFindingsAdd(t *testing.T) {
	of := func(name string) *Findings {
		return &Findings{Files: []File{{Path: name}}, Passed: []Passed{{Path: name}}, Hazards: []Hazard{{Path: name}}, Packed: []Packed{{Path: name}}, ELFFiles: 1, ExecBytes: 2, Warnings: []string{name}, Notes: []string{name}}
	}
	f := of("a")
	f.Add(of("b"))
	if len(f.Files) != 2 || f.Files[1].Path != "b" || f.Passed[1].Path != "b" || f.Hazards[1].Path != "b" || f.Packed[1].Path != "b" ||
		f.ELFFiles != 2 || f.ExecBytes != 4 || !slices.Equal(f.Warnings, []string{"a", "b"}) || !slices.Equal(f.Notes, f.Warnings) {
		t.Errorf("got %+v", f)
	}
}

// The header of an entry has what its member had, and nothing else; a link has the capabilities of its file.
func TestHeader(t *testing.T) {
	user, capable := blob.XattrPrefix+"user.a", blob.XattrPrefix+"security.capability"
	for _, want := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: "n", Size: 5}, {Typeflag: tar.TypeDir, Name: "n/"}, {Typeflag: tar.TypeSymlink, Name: "n", Linkname: "to"},
		{Typeflag: tar.TypeBlock, Name: "n", Devmajor: 3, Devminor: 4},
	} {
		h := want
		h.Mode, h.Uid, h.Gid, h.Uname, h.Gname, h.AccessTime = 0o104755, 1, 2, "user", "group", time.Unix(1, 0)
		h.PAXRecords = map[string]string{user: "1", capable: "2", "other": "3"}
		want.Mode, want.Uid, want.Gid, want.Uname, want.Gname, want.Format = 0o4755, 1, 2, "user", "group", tar.FormatPAX
		want.PAXRecords = map[string]string{user: "1", capable: "2"}
		e := &Entry{Header: cleaned(&h, "x")}
		if got := e.As("n"); !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v, want %+v", *got, want)
		}
		want.Typeflag, want.Name, want.Linkname, want.Size, want.Devmajor, want.Devminor = tar.TypeLink, "l", "n", 0, 0, 0
		want.PAXRecords = map[string]string{capable: "2"}
		if got := e.linkAs("l", "n"); !reflect.DeepEqual(*got, want) {
			t.Errorf("a link: got %+v, want %+v", *got, want)
		}
	}
}

// A member of an unknown kind is refused, as tar makes a file of it.
func TestUnknownKinds(t *testing.T) {
	for flag, refused := range map[byte]bool{'Z': true, 'M': true, tar.TypeXGlobalHeader: false} {
		h := &tar.Header{Name: "bin/x", Typeflag: flag}
		if e, err := newEntry(&blob.TarMember{Header: h, Path: "bin/x"}, false); e != nil || (err != nil) != refused {
			t.Errorf("%q: got %v, %v", flag, e, err)
		}
	}
}

// TestDeviceNumber: mknod(2) stores 12 bits of the major number and 20 of the minor one, so engines make other
// devices from larger numbers, and a whiteout from 4096:0.
func TestDeviceNumber(t *testing.T) {
	for _, tc := range [][4]int64{{1, 3, 1, 3}, {4095, 1<<20 - 1, 4095, 1<<20 - 1}, {4096, 0, 0, 0}, {4097, 1 << 20, 1, 0}} {
		h := cleaned(&tar.Header{Typeflag: tar.TypeChar, Devmajor: tc[0], Devminor: tc[1]}, "x")
		if got := [2]int64{h.Devmajor, h.Devminor}; got != [2]int64(tc[2:]) {
			t.Errorf("%d:%d: got %v, want %v", tc[0], tc[1], got, tc[2:])
		}
	}
}
