// The names that are refused before an engine is asked, those that are written, and the archive of a file.

package hotfix

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/hinterr"
)

func TestNames(t *testing.T) {
	for name, hint := range map[string]string{
		"db": "", "0123abcd": "", "a_b.c-d": "",
		"redis:2.8.22":     "vfix rebuild -t redis:2.8.22 redis:2.8.22",
		"docker://a/b":     "vfix rebuild -t docker://a/b",
		"pod/web":          "kubectl set image",
		"pod:web":          "kubectl set image",
		"../images/x/json": "vfix rebuild",
		"":                 "vfix rebuild",
	} {
		err := checkName(name)
		if hint == "" && err != nil || hint != "" && (!errors.Is(err, hinterr.ErrUnsupported) || !strings.Contains(hinterr.HintOf(err), hint)) {
			t.Errorf("%q: got %v, hint %q; want %q", name, err, hinterr.HintOf(err), hint)
		}
	}
}

func TestVisible(t *testing.T) {
	mounts := []string{"/etc/x", "/tmp", "/var/lib"}
	got := visible([]string{"var/lib/a", "var/liba", "etc/x", "etc/xy", "tmp", "bin/sh"}, mounts)
	if want := []string{"/var/liba", "/etc/xy", "/bin/sh"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := visible([]string{"a"}, []string{"/"}); len(got) > 0 {
		t.Errorf("below /: got %q", got)
	}
}

func TestArchive(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	meta := &contents.Meta{Mode: 0o4755, UID: 7, GID: 8, Mtime: time.Unix(1, 500), Xattrs: map[string]string{"security.capability": "\x01\x00"}}
	if err := errors.Join(add(w, []string{"/bin/a", "/bin/b"}, meta, 4, strings.NewReader("text")), w.Close()); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&b)
	file, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if file.Name != "bin/a" || file.Mode != 0o4755 || file.Uid != 7 || file.Gid != 8 || !file.ModTime.Equal(meta.Mtime) ||
		file.PAXRecords["SCHILY.xattr.security.capability"] != "\x01\x00" {
		t.Errorf("got %+v", file)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
	if link, err := r.Next(); err != nil || link.Typeflag != tar.TypeLink || link.Name != "bin/b" || link.Linkname != "bin/a" ||
		link.Mode != 0o4755 || !link.ModTime.Equal(meta.Mtime) || link.PAXRecords["SCHILY.xattr.security.capability"] == "" {
		t.Errorf("got %+v, %v", link, err)
	}
}
