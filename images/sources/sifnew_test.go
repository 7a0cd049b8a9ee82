package sources_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// The merged file system as one tar stream: each name once, hard links after their file, no file that a layer
// above hides, owners by ID without names, and no attribute that a squashfs cannot have.
func TestFlatten(t *testing.T) {
	owned := imagetest.FileM("a/owned", []byte("x"))
	owned.Uid, owned.Gid, owned.Uname, owned.Gname = 7, 8, "daemon", "daemon"
	owned.ModTime = time.Unix(-5, 0)
	owned.PAXRecords = map[string]string{"SCHILY.xattr.user.x": "1", "SCHILY.xattr.system.posix_acl_access": "2"}
	img := imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.DirM("a"), imagetest.FileM("a/gone", nil), imagetest.FileM("a/old", []byte("old")), owned,
			imagetest.FileM("b", []byte("content")), imagetest.LinkM("a/link", "b"), imagetest.FileM("c/hidden", nil)},
		[]imagetest.TestMember{imagetest.FileM("a/.wh.gone", nil), imagetest.FileM("a/old", []byte("new")), imagetest.SymM("s", "a"),
			imagetest.FileM("c/.wh..wh..opq", nil), imagetest.FileM("replaced", nil)})
	tree, err := imagetest.TestSession(t).Image(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	extras := []contents.Extra{{Name: "d/", Mode: 0o700}, {Name: "replaced", Mode: 0o600, Body: []byte("by this")}}
	warnings, err := sources.Flatten(t.Context(), tree, extras, &out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range imagetest.ReadTar(t, &out) {
		line := m.Name
		switch m.Typeflag {
		case tar.TypeReg:
			line += "=" + string(m.Body)
		case tar.TypeLink, tar.TypeSymlink:
			line += "->" + m.Linkname
		}
		got = append(got, line)
		if m.Uname != "" || m.Gname != "" || m.ModTime.Unix() < 0 {
			t.Errorf("%s: got user %q, group %q, time %v, want numbers alone", m.Name, m.Uname, m.Gname, m.ModTime)
		}
		if m.Name == "a/owned" && (m.Uid != 7 || m.Gid != 8 || m.PAXRecords["SCHILY.xattr.user.x"] != "1" || len(m.PAXRecords) != 1) {
			t.Errorf("a/owned: got %+v", m.Header)
		}
	}
	if want := "./ a/ c/ s->a a/owned=x a/link=content b->a/link a/old=new d/ replaced=by this"; strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "a/owned: system.posix_acl_access not kept") {
		t.Errorf("warnings: got %q", warnings)
	}
}

// withLayer is an image that was derived from another one.
type withLayer struct {
	v1.Image
	base   v1.Image
	traced bool
}

func (w withLayer) Base() v1.Image { return w.base }
func (w withLayer) Traced() bool   { return w.traced }

// The runscript's programs run under vfix-trace, and a message lists what does not.
func TestTracedSIF(t *testing.T) {
	base := imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("bin/x", nil)})
	for traced, warnings := range map[bool]int{true: 1, false: 0} {
		path := filepath.Join(t.TempDir(), "x.sif")
		st := imagetest.Put(t, "sif:"+path, media.Result{Image: withLayer{imagetest.Derived(t, base, true, traced), base, traced}})
		if len(st.Warnings) != warnings {
			t.Errorf("traced: %v: warnings %q, want %d", traced, st.Warnings, warnings)
		}
		if n := bytes.Count(imagetest.Must[[]byte](t)(os.ReadFile(path)), []byte("/vfix/vfix-trace")); (n > 0) != traced {
			t.Errorf("traced: %v: vfix-trace is named %d times", traced, n)
		}
	}
}
