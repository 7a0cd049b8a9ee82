package contents

import (
	"archive/tar"
	"errors"
	"testing"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// A layer whose attributes make overlay show other files than its members is refused, not misread.
func TestMisleadingAttributes(t *testing.T) {
	for name, refused := range map[string]bool{
		"trusted.overlay.redirect": true, "user.overlay.redirect": true, "trusted.overlay.metacopy": true, "user.overlay.metacopy": true,
		"trusted.overlay.opaque": false, "security.capability": false, "user.redirect": false,
	} {
		h := &tar.Header{Name: "usr/", Typeflag: tar.TypeDir, PAXRecords: map[string]string{blob.XattrPrefix + name: "/hidden"}}
		_, ok, err := newEntry(&blob.TarMember{Header: h, Path: "usr"}, true)
		if got := errors.Is(err, hinterr.ErrUnsupported); got != refused || ok == refused {
			t.Errorf("%s: got %v, %v", name, ok, err)
		}
	}
}

// In a tarball, a member of an unknown kind with content is refused, as tar makes a file of it; GNU tar's own are
// not.
func TestUnknownKinds(t *testing.T) {
	for flag, refused := range map[byte]bool{'Z': true, 'M': true, 'D': false, 'V': false, tar.TypeXGlobalHeader: false} {
		for size := range int64(2) {
			h := &tar.Header{Name: "bin/x", Typeflag: flag, Size: size}
			if _, ok, err := newEntry(&blob.TarMember{Header: h, Path: "bin/x"}, false); ok || (err != nil) != (refused && size > 0) {
				t.Errorf("%q of %d bytes: got %v, %v", flag, size, ok, err)
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
