package contents

import (
	"archive/tar"
	"errors"
	"testing"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// A layer whose attributes make overlay show something else than its members are is refused, not misread.
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

// In a tarball, a member of an unknown kind with content is refused, for tar makes a file of it; GNU tar's own are not.
func TestUnknownKinds(t *testing.T) {
	for flag, refused := range map[byte]bool{'Z': true, 'M': true, 'D': false, 'V': false, tar.TypeXGlobalHeader: false} {
		h := &tar.Header{Name: "bin/x", Typeflag: flag, Size: 1}
		if _, ok, err := newEntry(&blob.TarMember{Header: h, Path: "bin/x"}, false); ok || (err != nil) != refused {
			t.Errorf("%q: got %v, %v", flag, ok, err)
		}
	}
}
