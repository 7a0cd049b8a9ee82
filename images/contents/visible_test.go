package contents_test

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/tests/imagetest"
)

type layers [][]imagetest.TestMember

// visibleCases are one rule each for merging layers; engine reports that umoci merges them in the same way, and is
// tested. If engines differ, overlay engines count: TestTrickyLayers, one directory up, tests each engine.
var visibleCases = []struct {
	name   string
	layers layers
	want   string
	engine bool
}{
	{"one file", layers{{imagetest.DirM("lib"), imagetest.LegacyM("lib/a", "1")}}, "lib/a:1", true},
	{"no layers", layers{}, "", false},
	{"the same layer twice", layers{{imagetest.LegacyM("a", "1")}, {imagetest.FileM(".wh.a", nil)}, {imagetest.LegacyM("a", "1")}}, "a:1", true},
	{"whiteout, then a directory of the same name, in one layer", layers{{imagetest.LegacyM("d/a", "1"), imagetest.LegacyM("d/c", "1")}, {imagetest.FileM(".wh.d", nil), imagetest.LegacyM("d/b", "2")}}, "d/b:2", true},
	{"without directories", layers{{imagetest.LegacyM("lib/x/a", "1")}}, "lib/x/a:1", true},
	{"./ and / before names", layers{{imagetest.LegacyM("./a", "1"), imagetest.LegacyM("/b", "2")}}, "a:1 b:2", true},
	{"replaced", layers{{imagetest.LegacyM("a", "1")}, {imagetest.LegacyM("a", "2")}}, "a:2", true},
	{"replaced by a modern one", layers{{imagetest.LegacyM("a", "1"), imagetest.LegacyM("b", "1")}, {imagetest.FileM("a", imagetest.ModernELF(""))}}, "b:1", true},
	{"twice in one layer", layers{{imagetest.LegacyM("a", "1"), imagetest.LegacyM("a", "2")}}, "a:2", true},
	{"whiteout", layers{{imagetest.LegacyM("a", "1"), imagetest.LegacyM("b", "1")}, {imagetest.FileM(".wh.a", nil)}}, "b:1", true},
	{"whiteout of a directory", layers{{imagetest.LegacyM("d/a", "1"), imagetest.LegacyM("b", "1")}, {imagetest.FileM(".wh.d", nil)}}, "b:1", true},
	{"whiteout in a directory", layers{{imagetest.LegacyM("d/a", "1"), imagetest.LegacyM("d/b", "1")}, {imagetest.DirM("d"), imagetest.FileM("d/.wh.a", nil)}}, "d/b:1", true},
	{"whiteout, then back", layers{{imagetest.LegacyM("a", "1")}, {imagetest.FileM(".wh.a", nil)}, {imagetest.LegacyM("a", "3")}}, "a:3", true},
	{"whiteout of nothing there", layers{{imagetest.LegacyM("a", "1")}, {imagetest.FileM(".wh.b", nil), imagetest.FileM("c/.wh.d", nil)}}, "a:1", false},
	{"whiteout and the same name, in one layer", layers{{imagetest.LegacyM("a", "1")}, {imagetest.LegacyM("a", "2"), imagetest.FileM(".wh.a", nil)}}, "a:2", true},
	{"file, whiteout and a directory of the same name, in the lowest layer", layers{{imagetest.LegacyM("d", "1"), imagetest.FileM(".wh.d", nil), imagetest.LegacyM("d/a", "2")}}, "d/a:2", false},
	{"whiteout before the same name, in one layer", layers{{imagetest.LegacyM("a", "1")}, {imagetest.FileM(".wh.a", nil), imagetest.LegacyM("a", "2")}}, "a:2", true},
	{"whiteout of a directory with new files, in one layer", layers{{imagetest.LegacyM("d/a", "1"), imagetest.LegacyM("d/b", "1")}, {imagetest.LegacyM("d/a", "2"), imagetest.FileM(".wh.d", nil)}}, "d/a:2", true},
	{"opaque", layers{{imagetest.LegacyM("d/a", "1"), imagetest.LegacyM("b", "1")}, {imagetest.DirM("d"), imagetest.FileM("d/.wh..wh..opq", nil)}}, "b:1", true},
	{"opaque, with files of the layer before and behind", layers{{imagetest.LegacyM("d/a", "1"), imagetest.LegacyM("d/b", "1"), imagetest.LegacyM("d/c", "1")}, {imagetest.DirM("d"), imagetest.LegacyM("d/a", "2"), imagetest.FileM("d/.wh..wh..opq", nil), imagetest.LegacyM("d/c", "2")}}, "d/a:2 d/c:2", true},
	{"opaque, directories below", layers{{imagetest.LegacyM("d/e/a", "1")}, {imagetest.DirM("d"), imagetest.DirM("d/e"), imagetest.LegacyM("d/e/b", "2"), imagetest.FileM("d/.wh..wh..opq", nil)}}, "d/e/b:2", true},
	{"opaque file", layers{{imagetest.LegacyM("b", "1")}, {imagetest.LegacyM("a", "2"), imagetest.FileM("a/.wh..wh..opq", nil)}}, "a:2 b:1", false},
	{"opaque through a symlink of its layer", layers{{imagetest.LegacyM("d/a", "1"), imagetest.LegacyM("b", "1")}, {imagetest.SymM("s", "d"), imagetest.FileM("s/.wh..wh..opq", nil)}}, "b:1", false},
	{"opaque root", layers{{imagetest.LegacyM("a", "1")}, {imagetest.FileM(".wh..wh..opq", nil), imagetest.LegacyM("b", "2")}}, "a:1 b:2", false},
	{"directory becomes a file", layers{{imagetest.LegacyM("d/a", "1")}, {imagetest.LegacyM("d", "2")}}, "d:2", true},
	{"file becomes a directory", layers{{imagetest.LegacyM("d", "1")}, {imagetest.DirM("d"), imagetest.LegacyM("d/a", "2")}}, "d/a:2", true},
	{"file becomes a directory that is not named", layers{{imagetest.LegacyM("d", "1")}, {imagetest.LegacyM("d/a", "2")}}, "d/a:2", false},
	{"directory becomes a symlink", layers{{imagetest.LegacyM("d/a", "1"), imagetest.DirM("e")}, {imagetest.SymM("d", "e")}}, "", true},
	{"directory stays where a layer names it again", layers{{imagetest.LegacyM("d/a", "1")}, {imagetest.DirM("d"), imagetest.LegacyM("d/b", "2")}}, "d/a:1 d/b:2", true},
	{"hard links", layers{{imagetest.LegacyM("b", "1"), imagetest.LinkM("c", "b"), imagetest.LinkM("a", "./b")}}, "a=b=c:1", true},
	{"hard links beside a directory", layers{{imagetest.LegacyM("lib/x", "1"), imagetest.LinkM("lib-y", "lib/x")}}, "lib-y=lib/x:1", false},
	{"hard link to a lower layer", layers{{imagetest.LegacyM("a", "1")}, {imagetest.LinkM("b", "a")}}, "a=b:1", true},
	{"hard link whose first name is gone", layers{{imagetest.LegacyM("a", "1"), imagetest.LinkM("b", "a")}, {imagetest.FileM(".wh.a", nil)}}, "b:1", true},
	{"hard link whose other name is replaced", layers{{imagetest.LegacyM("a", "1"), imagetest.LinkM("b", "a")}, {imagetest.LegacyM("b", "2")}}, "a:1 b:2", true},
	{"hard link through a symlinked directory", layers{{imagetest.DirM("usr/lib"), imagetest.SymM("lib", "usr/lib"), imagetest.LegacyM("usr/lib/a", "1"), imagetest.LinkM("b", "lib/a")}}, "b=usr/lib/a:1", true},
	{"hard link in aufs's pool", layers{{imagetest.DirM(".wh..wh.plnk"), imagetest.LegacyM(".wh..wh.plnk/12.34", "1"), imagetest.LinkM("a", ".wh..wh.plnk/12.34"), imagetest.LinkM("b", "/.wh..wh.plnk/12.34")}}, "a=b:1", false},
	{"other files of aufs", layers{{imagetest.FileM(".wh..wh.aufs", nil), imagetest.DirM(".wh..wh.orph"), imagetest.LegacyM(".wh..wh.orph/x", "1"), imagetest.LegacyM("a", "1")}}, "a:1", false},
	{"through a symlink of the same layer", layers{{imagetest.DirM("usr/lib"), imagetest.SymM("lib", "usr/lib"), imagetest.LegacyM("lib/a", "1")}}, "usr/lib/a:1", true},
	{"through a symlink with ..", layers{{imagetest.DirM("usr/lib"), imagetest.DirM("d"), imagetest.SymM("d/l", "../usr/lib"), imagetest.LegacyM("d/l/a", "1")}}, "usr/lib/a:1", true},
	{"through a symlink of a lower layer", layers{{imagetest.DirM("usr/lib"), imagetest.SymM("lib", "usr/lib"), imagetest.LegacyM("usr/lib/a", "1")}, {imagetest.LegacyM("lib/a", "2")}}, "lib/a:2 usr/lib/a:1", false},
	{"through an absolute symlink", layers{{imagetest.DirM("usr/lib"), imagetest.SymM("lib", "/usr/lib")}, {imagetest.LegacyM("lib/a", "2")}}, "lib/a:2", false},
	{"through a symlink that would leave the root", layers{{imagetest.SymM("lib", "../../../usr")}, {imagetest.LegacyM("lib/a", "2")}}, "lib/a:2", false},
	{"through a chain of symlinks", layers{{imagetest.DirM("x/y"), imagetest.SymM("l1", "x"), imagetest.SymM("x/l2", "../x/y")}, {imagetest.LegacyM("l1/l2/a", "2")}}, "l1/l2/a:2", false},
	{"through a dangling symlink", layers{{imagetest.SymM("lib", "usr/lib")}, {imagetest.LegacyM("lib/a", "2")}}, "lib/a:2", false},
	{"whiteout through a symlink", layers{{imagetest.DirM("usr/lib"), imagetest.SymM("lib", "usr/lib"), imagetest.LegacyM("usr/lib/a", "1"), imagetest.LegacyM("b", "1")}, {imagetest.FileM("lib/.wh.a", nil)}}, "b:1 usr/lib/a:1", false},
	{"a symlink is replaced, not followed", layers{{imagetest.LegacyM("a", "1"), imagetest.SymM("b", "a")}, {imagetest.LegacyM("b", "2")}}, "a:1 b:2", true},
	{"a name with .. inside the root", layers{{imagetest.DirM("d"), imagetest.LegacyM("d/../a", "1")}}, "a:1", true},
	{"not followed into files of other kinds", layers{{{Header: tar.Header{Typeflag: tar.TypeFifo, Name: "p", Mode: 0o600}, Body: nil}, imagetest.LegacyM("a", "1")}}, "a:1", true},
}

func TestVisible(t *testing.T) {
	for _, tc := range visibleCases {
		t.Run(tc.name, func(t *testing.T) {
			f, _, err := imagetest.ScanImage(t, imagetest.Stack(t, tc.layers...))
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(t, f); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestVisibleAsUnpacked compares with another implementation: umoci unpacks the same layers, and the legacy files
// in the directory must be those of the scan.
func TestVisibleAsUnpacked(t *testing.T) {
	imagetest.AsRoot(t, "umoci unpacks with owners")
	umoci, err := exec.LookPath("umoci")
	if err != nil {
		t.Skip("umoci is not installed")
	}
	for _, tc := range visibleCases {
		if !tc.engine {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			p := imagetest.Must[layout.Path](t)(layout.Write(filepath.Join(dir, "img"), empty.Index))
			if err := p.AppendImage(imagetest.Stack(t, tc.layers...), layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "x"})); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(umoci, "unpack", "--image", filepath.Join(dir, "img:x"), filepath.Join(dir, "bundle"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := unpacked(t, filepath.Join(dir, "bundle", "rootfs")); got != tc.want {
				t.Errorf("umoci: got %q, want %q", got, tc.want)
			}
		})
	}
}

// unpacked is summary for a directory.
func unpacked(t *testing.T, root string) string {
	byID := map[contents.FileID]int{}
	var all []string
	var texts []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(b, imagetest.CallTime) {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		id, _ := contents.Identify(fi)
		if n, ok := byID[id]; ok {
			all[n] += "=" + rel
			return nil
		}
		byID[id] = len(all)
		all = append(all, rel)
		texts = append(texts, string(b[imagetest.LegacyCode+len(imagetest.CallTime):]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i] += ":" + texts[i]
	}
	return strings.Join(all, " ")
}

// TestBadLayers: each is an error that names the layer, and the member if there is one.
func TestBadLayers(t *testing.T) {
	long := strings.Repeat("x/", 3000) + "x"
	for _, tc := range []struct {
		name   string
		layers layers
		want   string
	}{
		{"leaves the root", layers{{imagetest.LegacyM("../a", "1")}}, "../a: name leaves the root file system"},
		{"leaves the root later", layers{{imagetest.LegacyM("a/../../b", "1")}}, "a/../../b: name leaves the root"},
		{"hard link leaves the root", layers{{imagetest.LinkM("a", "../../etc/passwd")}}, "a: hard link: ../../etc/passwd: name leaves the root"},
		{"hard link to nothing", layers{{imagetest.LinkM("a", "b")}}, "a: hard link to b, which does not exist"},
		{"hard link to what its layer hides", layers{{imagetest.LegacyM("b", "1")}, {imagetest.FileM(".wh.b", nil), imagetest.LinkM("a", "b")}}, "a: hard link to b, which does not exist"},
		{"hard link to a directory", layers{{imagetest.DirM("d"), imagetest.LinkM("a", "d")}}, "a: hard link to d, which is a directory"},
		{"symlink to itself", layers{{imagetest.SymM("l", "l"), imagetest.LegacyM("l/a", "1")}}, "l/a: too many levels of symbolic links"},
		{"hard link through a ring", layers{{imagetest.SymM("l", "l"), imagetest.LinkM("a", "l/x")}}, "a: too many levels of symbolic links"},
		{"whiteout of .", layers{{imagetest.FileM("d/.wh..", nil)}}, "d/.wh..: whiteout of nothing"},
		{"symlinks in a ring", layers{{imagetest.SymM("l", "m"), imagetest.SymM("m", "l"), imagetest.FileM("l/.wh.a", nil)}}, "too many levels of symbolic links"},
		{"file below a file of its layer", layers{{imagetest.FileM("f", nil), imagetest.LegacyM("f/a", "1")}}, "f/a: f is not a directory"},
		{"long name", layers{{imagetest.LegacyM(long, "1")}}, "name of 6001 bytes, at most 4096"},
		{"whiteout of nothing", layers{{imagetest.FileM("d/.wh.", nil)}}, "d/.wh.: whiteout of nothing"},
		{"whiteout of ..", layers{{imagetest.FileM("d/.wh...", nil)}}, "d/.wh...: whiteout of nothing"},
		{"entry of an unknown kind", layers{{{Header: tar.Header{Typeflag: 'Z', Name: "lib/a"}, Body: nil}}}, `lib/a: tar entry of type 'Z', which engines refuse`},
		{"root is a file", layers{{{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: ".", Linkname: "/etc"}, Body: nil}}}, "the root file system is not a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			img := imagetest.Stack(t, tc.layers...)
			_, _, err := imagetest.ScanImage(t, img)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got error %v, want one with %q", err, tc.want)
			}
			ls := imagetest.Must[[]v1.Layer](t)(img.Layers())
			id := imagetest.Must[v1.Hash](t)(ls[len(ls)-1].DiffID())
			if prefix := "layer " + blob.ShortHash(id) + ": "; !strings.HasPrefix(err.Error(), prefix) {
				t.Errorf("got error %v, want it to begin with %q", err, prefix)
			}
		})
	}
}

// TestHardLinkMetadata: a link's own header applies to the file, as in docker and containerd (containerd,
// archive.createTarFile).
func TestHardLinkMetadata(t *testing.T) {
	a := imagetest.LegacyM("a.so", "1")
	a.Mode, a.Uid = 0o6755, 1
	a.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": imagetest.CapNetRaw, "SCHILY.xattr.user.a": "1"}
	b := imagetest.LinkM("b.so", "a.so")
	b.Mode, b.ModTime = 0o644, imagetest.TestTime.Add(time.Hour)
	b.PAXRecords = map[string]string{"SCHILY.xattr.user.b": "2"}
	for _, layers := range []layers{{{a, b}}, {{a}, {b}}} {
		f, tree, err := imagetest.ScanImage(t, imagetest.Stack(t, layers...))
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(t, f); got != "a.so=b.so:1" {
			t.Fatalf("got %q", got)
		}
		for _, name := range []string{"a.so", "b.so"} {
			m := tree.At(name).Meta
			if m.Mode != 0o644 || m.UID != 0 || !m.Mtime.Equal(b.ModTime) || !maps.Equal(m.Xattrs, map[string]string{"user.a": "1", "user.b": "2"}) {
				t.Errorf("%s: got %+v, want what the link's header says", name, m)
			}
		}
		if m := f.Targets[0].Meta; m.Mode != 0o644 {
			t.Errorf("the file to patch: got mode %#o", m.Mode)
		}
	}
	// A symlink has no mode, and the root's metadata is that of its last entry.
	root := imagetest.DirM("./")
	root.Mode = 0o710
	link := imagetest.LinkM("z", "s")
	link.Mode = 0o600
	_, linked, err := imagetest.ScanImage(t, imagetest.Stack(t, []imagetest.TestMember{root, imagetest.SymM("s", "x"), link}))
	if err != nil || linked.Root.Meta.Mode != 0o710 || linked.Root.Implied || linked.Find("z").Meta.Mode != linked.Find("s").Meta.Mode || linked.Find("z").Meta.Mode == 0o600 {
		t.Errorf("got root %o, link %o, %v", linked.Root.Meta.Mode, linked.Find("z").Meta.Mode, err)
	}
	// Without the link, an added layer has what docker and containerd show.
	s := imagetest.TestSession(t)
	tree := imagetest.Must[*contents.Tree](t)(s.Image(t.Context(), imagetest.Stack(t, []imagetest.TestMember{a, b}, []imagetest.TestMember{imagetest.FileM(".wh.b.so", nil)})))
	l := imagetest.Must[*contents.AddedLayer](t)(s.NewLayer(t.Context(), tree, imagetest.Must[*contents.Scanned](t)(s.Findings(t.Context(), tree)).ToPatch(), nil))
	defer l.Close()
	r := imagetest.Must[io.ReadCloser](t)(l.Uncompressed())
	defer r.Close()
	if added := imagetest.ReadTar(t, r); len(added) != 1 || added[0].PAXRecords["SCHILY.xattr.security.capability"] != "" || added[0].PAXRecords["SCHILY.xattr.user.b"] != "2" {
		t.Errorf("the file alone: got %+v", added)
	}
}

// TestEnginesDiffer: if the views of engines differ, all files are found, written once under each name in any
// view, and reported.
func TestEnginesDiffer(t *testing.T) {
	usr := []imagetest.TestMember{imagetest.DirM("usr/lib"), imagetest.SymM("lib", "usr/lib")}
	for _, tc := range []struct {
		layers   layers
		files    string
		warnings int
		text     string
	}{
		{layers{usr, {imagetest.FileM("lib/x", nil)}}, "", 0, ""},
		{layers{usr, {imagetest.LegacyM("lib/a", "1")}}, "lib/a:1", 1,
			"overlay engines show it as lib/a, docker's vfs driver and containerd's native snapshotter, umoci: it as usr/lib/a"},
		// The name that overlay engines show comes first, and files come in the order of their names.
		{layers{usr, {imagetest.LegacyM("z", "1"), imagetest.LinkM("lib/a", "z"), imagetest.LegacyM("x", "2")}, {imagetest.SymM("lib", "usr/lib")}}, "x:2 z=usr/lib/a:1", 1, "it as z (after a rebuild also as usr/lib/a)"},
		{layers{usr, {imagetest.LegacyM("lib/a", "1"), imagetest.LegacyM("x", "2")}, {imagetest.SymM("lib", "usr/lib")}}, "usr/lib/a:1 x:2", 1, "it nowhere (after a rebuild also as usr/lib/a)"},
		{layers{{imagetest.DirM("q"), imagetest.SymM("l", "q")}, {imagetest.LegacyM("l/x", "1")}, {imagetest.SymM("q", "f/y"), imagetest.FileM("f", nil)}}, "l/x:1", 1, "cannot unpack the result: on the way to f/y/x is not a directory"},
		{layers{{imagetest.DirM("q"), imagetest.SymM("l", "q")}, {imagetest.LegacyM("l/x", "1")}, {imagetest.FileM(".wh.q", nil)}}, "l/x:1", 1, "it nowhere (after a rebuild also as q/x) (docker's vfs driver cannot unpack the result: on the way to l/x a symlink is dangling)"},
		{layers{{imagetest.SymM("l", "new/d")}, {imagetest.LegacyM("l/a", "1")}, {imagetest.SymM("l", "new/d")}}, "new/d/a:1", 1, "it nowhere (after a rebuild also as new/d/a), docker's vfs driver and"},
		{layers{usr, {imagetest.LegacyM("lib/a", "1"), imagetest.LinkM("lib-b", "lib/a")}}, "lib-b=lib/a:1", 1, "overlay engines show it as lib-b, lib/a, docker's"},
		{layers{usr, {imagetest.LegacyM("lib/a", "1")}, {imagetest.SymM("lib", "usr/lib")}}, "usr/lib/a:1", 1, "overlay engines show it nowhere (after a rebuild also as usr/lib/a), docker's vfs"},
		{layers{append(usr, imagetest.LegacyM("usr/lib/a", "1")), {imagetest.FileM("lib/.wh.a", nil)}}, "usr/lib/a:1", 1, "umoci: it nowhere"},
		{layers{append(usr, imagetest.FileM("usr/lib/a", nil)), {imagetest.LegacyM("lib/a", "1")}, {imagetest.SymM("lib", "usr/lib")}}, "usr/lib/a:1", 1, "which does not change: overlay engines have another file there"},
		{layers{{imagetest.LegacyM("a", "1")}, {imagetest.LegacyM("a", "2"), imagetest.FileM(".wh.a", nil)}}, "a:2", 1, "native snapshotter: it nowhere"},
		{layers{{imagetest.LegacyM("d/a", "1"), imagetest.LegacyM("b", "1"), imagetest.FileM(".wh..wh..opq", nil)}}, "b:1 d/a:1", 1, "containerd's overlayfs snapshotter: it nowhere"},
		{layers{append(usr, imagetest.LegacyM("d/a", "1"), imagetest.FileM(".wh..wh..opq", nil)), {imagetest.LegacyM("lib/b", "2")}}, "d/a:1 lib/b:2", 4, "containerd's overlayfs snapshotter: it nowhere"},
		{layers{{imagetest.LegacyM("c/x/x", "1")}, {imagetest.SymM("a", ".")}, {imagetest.SymM("a/c/x", "../a"), imagetest.FileM("a/x/y", nil)}}, "c/x/x:1", 1, "x is a directory there"},
		{layers{{imagetest.SymM("d", "b/x"), imagetest.FileM(".wh.d", nil), imagetest.LegacyM("d/x/y", "1")}, {imagetest.SymM("b", "b")}}, "d/x/y:1", 1, "cannot unpack the result: symlinks on the way to d/x/y lead in a circle"},
	} {
		f, tree, err := imagetest.ScanImage(t, imagetest.Stack(t, tc.layers...))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(f.Warnings, "\n")
		if summary(t, f) != tc.files || len(f.Warnings) != tc.warnings || !strings.Contains(got, tc.text) {
			t.Errorf("got %q with warnings %q, want %q with %q", summary(t, f), got, tc.files, tc.text)
		}
		if tc.warnings > 0 && !strings.Contains(got, blob.ShortHash(tree.Layers[f.Targets[0].Layer].DiffID)) {
			t.Errorf("got %q, want the layer in it", got)
		}
	}
}

// summary returns the results of a scan, one word per file: its names and the text of its LegacyELF.
func summary(t testing.TB, f *contents.Scanned) string {
	t.Helper()
	var all []string
	for _, h := range f.Targets {
		b := make([]byte, h.Size)
		if _, err := h.ELF.Content.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Join(h.Names, "=")+":"+string(b[imagetest.LegacyCode+len(imagetest.CallTime):]))
	}
	return strings.Join(all, " ")
}
