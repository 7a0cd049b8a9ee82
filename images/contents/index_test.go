package contents

import (
	"archive/tar"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/patch"
)

// A layer whose attributes make overlay show other files than its members is refused, not misread.
func TestMisleadingAttributes(t *testing.T) {
	for name, refused := range map[string]bool{
		"trusted.overlay.redirect": true, "user.overlay.redirect": true, "trusted.overlay.metacopy": true, "user.overlay.metacopy": true,
		"trusted.overlay.opaque": false, "security.capability": false, "user.redirect": false,
	} {
		h := &tar.Header{Name: "usr/", Typeflag: tar.TypeDir, PAXRecords: map[string]string{blob.XattrPrefix + name: "/hidden"}}
		e, err := newEntry(&blob.TarMember{Header: h, Path: "usr"}, true)
		if got := errors.Is(err, hinterr.ErrUnsupported); got != refused || (e == nil) != refused {
			t.Errorf("%s: got %v, %v", name, e, err)
		}
	}
}

// The attributes of a tarball's members hide nothing, and its root is a directory.
func TestEntriesOfTarballs(t *testing.T) {
	h := &tar.Header{Name: "usr/", Typeflag: tar.TypeDir, PAXRecords: map[string]string{blob.XattrPrefix + "user.overlay.redirect": "/x"}}
	if e, err := newEntry(&blob.TarMember{Header: h, Path: "usr"}, false); err != nil || e.Kind != KindDir {
		t.Errorf("got %v, %v, want a directory", e, err)
	}
	for flag, ok := range map[byte]bool{tar.TypeDir: true, tar.TypeReg: false, tar.TypeSymlink: false} {
		h := &tar.Header{Name: "./", Typeflag: flag}
		if e, err := newEntry(&blob.TarMember{Header: h}, false); (e != nil) != ok || (err == nil) != ok {
			t.Errorf("%q: got %v, %v", flag, e, err)
		}
	}
}

// A layer whose media type cannot be read is damaged, and not of an unknown kind.
func TestUnknownFormat(t *testing.T) {
	if why := unknownFormat(typeless{}, []byte("text")); why != nil {
		t.Errorf("got %+v", why)
	}
}

type typeless struct{ v1.Layer }

func (typeless) MediaType() (types.MediaType, error) { return "", errors.New("none") }

// The kernel runs 64-bit ELF files of this machine alone; an archive may have some.
func TestIsELF(t *testing.T) {
	head := func(magic string, machine ...byte) []byte {
		return append(append([]byte(magic), make([]byte, 14)...), machine...)
	}
	for _, c := range []struct {
		head []byte
		want bool
	}{
		{head("\x7fELF", 62, 0), true}, {head("\x7fELF", 3, 0), false}, {head("\x7fELF", 62, 1), false},
		{head("\x7fELF", 62), false}, {head("\x7fELG", 62, 0), false}, {head("!<arch>\n"), true}, {nil, false},
	} {
		if got := isELF(c.head); got != c.want {
			t.Errorf("%q: got %v", c.head, got)
		}
	}
}

// The marks of a file are listed in order, and only they are removed.
func TestMarks(t *testing.T) {
	for range 20 { // maps are in any order
		m := Meta{Xattrs: map[string]string{"security.ima": "1", "security.evm": "2", "user.a": "3"}}
		if got := Marks(m.Xattrs); !slices.Equal(got, []string{"security.evm", "security.ima"}) {
			t.Fatalf("got %q", got)
		}
		if u := m.Unmarked(); !maps.Equal(u.Xattrs, map[string]string{"user.a": "3"}) || len(m.Xattrs) != 3 {
			t.Fatalf("got %v, of %v", u.Xattrs, m.Xattrs)
		}
		if e := (&Entry{Meta: m}).Unmarked(); len(e.Meta.Xattrs) != 1 {
			t.Fatalf("entry: got %v", e.Meta.Xattrs)
		}
	}
}

// A warning names the marks that a patched file does not keep, if there are any.
func TestWarnDropped(t *testing.T) {
	h := Target{Plan: &patch.Plan{}}
	if h.WarnDropped(nil); len(h.Plan.Warnings) != 0 {
		t.Errorf("none dropped: got %q", h.Plan.Warnings)
	}
	if h.WarnDropped([]string{"a", "b"}); len(h.Plan.Warnings) != 1 || !strings.HasPrefix(h.Plan.Warnings[0], "a, b dropped") {
		t.Errorf("got %q", h.Plan.Warnings)
	}
}

// A source without ELF files is complete only if nothing was omitted.
func TestComplete(t *testing.T) {
	for _, c := range []struct {
		elf    int
		passed []Passed
		want   bool
	}{
		{0, nil, true}, {1, nil, true}, {0, []Passed{{Path: "x"}}, false}, {1, []Passed{{Path: "x"}}, true},
		{1, []Passed{{Path: "x", Unread: true}}, false},
	} {
		if got := (&Findings{ELFFiles: c.elf, Passed: c.passed}).Complete(); got != c.want {
			t.Errorf("%d ELF files, %+v: got %v", c.elf, c.passed, got)
		}
	}
}

// In a tarball, a member of an unknown kind with content is refused, as tar makes a file of it; GNU tar's own are
// not.
func TestUnknownKinds(t *testing.T) {
	for flag, refused := range map[byte]bool{'Z': true, 'M': true, 'D': false, 'V': false, tar.TypeXGlobalHeader: false} {
		for size := range int64(2) {
			h := &tar.Header{Name: "bin/x", Typeflag: flag, Size: size}
			if e, err := newEntry(&blob.TarMember{Header: h, Path: "bin/x"}, false); e != nil || (err != nil) != (refused && size > 0) {
				t.Errorf("%q of %d bytes: got %v, %v", flag, size, e, err)
			}
		}
	}
}

// TestDeviceNumber: mknod(2) stores 12 bits of the major number and 20 of the minor one, so engines make other
// devices from larger numbers, and a whiteout from 4096:0.
func TestDeviceNumber(t *testing.T) {
	for _, tc := range [][4]int64{{1, 3, 1, 3}, {4095, 1<<20 - 1, 4095, 1<<20 - 1}, {4096, 0, 0, 0}, {4097, 1 << 20, 1, 0}} {
		h := NewMeta(&tar.Header{Typeflag: tar.TypeChar, Devmajor: tc[0], Devminor: tc[1]})
		if got := [2]int64{h.device.major(), h.device.minor()}; got != [2]int64(tc[2:]) {
			t.Errorf("%d:%d: got %v, want %v", tc[0], tc[1], got, tc[2:])
		}
	}
}
