package images

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

type layers [][]testMember

// visibleCases are one rule each of how layers are put together; engine says that umoci
// puts the layers together in the same way, and is asked.
var visibleCases = []struct {
	name   string
	layers layers
	want   string
	engine bool
}{
	{"one file", layers{{dirM("lib"), legacyM("lib/a", "1")}}, "lib/a:1", true},
	{"without folders", layers{{legacyM("lib/x/a", "1")}}, "lib/x/a:1", true},
	{"./ and / before names", layers{{legacyM("./a", "1"), legacyM("/b", "2")}}, "a:1 b:2", true},
	{"replaced", layers{{legacyM("a", "1")}, {legacyM("a", "2")}}, "a:2", true},
	{"replaced by a modern one", layers{{legacyM("a", "1"), legacyM("b", "1")}, {fileM("a", modernELF(""))}}, "b:1", true},
	{"twice in one layer", layers{{legacyM("a", "1"), legacyM("a", "2")}}, "a:2", true},
	{"whiteout", layers{{legacyM("a", "1"), legacyM("b", "1")}, {fileM(".wh.a", nil)}}, "b:1", true},
	{"whiteout of a folder", layers{{legacyM("d/a", "1"), legacyM("b", "1")}, {fileM(".wh.d", nil)}}, "b:1", true},
	{"whiteout in a folder", layers{{legacyM("d/a", "1"), legacyM("d/b", "1")}, {dirM("d"), fileM("d/.wh.a", nil)}}, "d/b:1", true},
	{"whiteout, then back", layers{{legacyM("a", "1")}, {fileM(".wh.a", nil)}, {legacyM("a", "3")}}, "a:3", true},
	{"whiteout of nothing there", layers{{legacyM("a", "1")}, {fileM(".wh.b", nil), fileM("c/.wh.d", nil)}}, "a:1", false},
	{"whiteout and the same name, in one layer", layers{{legacyM("a", "1")}, {legacyM("a", "2"), fileM(".wh.a", nil)}}, "a:2", true},
	{"whiteout before the same name, in one layer", layers{{legacyM("a", "1")}, {fileM(".wh.a", nil), legacyM("a", "2")}}, "a:2", true},
	{"whiteout of a folder with new files, in one layer", layers{{legacyM("d/a", "1"), legacyM("d/b", "1")}, {legacyM("d/a", "2"), fileM(".wh.d", nil)}}, "d/a:2", true},
	{"opaque", layers{{legacyM("d/a", "1"), legacyM("b", "1")}, {dirM("d"), fileM("d/.wh..wh..opq", nil)}}, "b:1", true},
	{"opaque, with files of the layer before and behind", layers{{legacyM("d/a", "1"), legacyM("d/b", "1"), legacyM("d/c", "1")}, {dirM("d"), legacyM("d/a", "2"), fileM("d/.wh..wh..opq", nil), legacyM("d/c", "2")}}, "d/a:2 d/c:2", true},
	{"opaque, folders below", layers{{legacyM("d/e/a", "1")}, {dirM("d"), dirM("d/e"), legacyM("d/e/b", "2"), fileM("d/.wh..wh..opq", nil)}}, "d/e/b:2", true},
	{"opaque root", layers{{legacyM("a", "1")}, {fileM(".wh..wh..opq", nil), legacyM("b", "2")}}, "b:2", false},
	{"folder becomes a file", layers{{legacyM("d/a", "1")}, {legacyM("d", "2")}}, "d:2", true},
	{"file becomes a folder", layers{{legacyM("d", "1")}, {dirM("d"), legacyM("d/a", "2")}}, "d/a:2", true},
	{"file becomes a folder that is not named", layers{{legacyM("d", "1")}, {legacyM("d/a", "2")}}, "d/a:2", false},
	{"folder becomes a symlink", layers{{legacyM("d/a", "1"), dirM("e")}, {symM("d", "e")}}, "", true},
	{"folder stays where a layer names it again", layers{{legacyM("d/a", "1")}, {dirM("d"), legacyM("d/b", "2")}}, "d/a:1 d/b:2", true},
	{"hard links", layers{{legacyM("b", "1"), linkM("c", "b"), linkM("a", "./b")}}, "a=b=c:1", true},
	{"hard link to a lower layer", layers{{legacyM("a", "1")}, {linkM("b", "a")}}, "a=b:1", true},
	{"hard link whose first name is gone", layers{{legacyM("a", "1"), linkM("b", "a")}, {fileM(".wh.a", nil)}}, "b:1", true},
	{"hard link whose other name is replaced", layers{{legacyM("a", "1"), linkM("b", "a")}, {legacyM("b", "2")}}, "a:1 b:2", true},
	{"hard link through a symlinked folder", layers{{dirM("usr/lib"), symM("lib", "usr/lib"), legacyM("usr/lib/a", "1"), linkM("b", "lib/a")}}, "b=usr/lib/a:1", true},
	{"hard link in aufs's pool", layers{{dirM(".wh..wh.plnk"), legacyM(".wh..wh.plnk/12.34", "1"), linkM("a", ".wh..wh.plnk/12.34"), linkM("b", "/.wh..wh.plnk/12.34")}}, "a=b:1", false},
	{"other files of aufs", layers{{fileM(".wh..wh.aufs", nil), dirM(".wh..wh.orph"), legacyM(".wh..wh.orph/x", "1"), legacyM("a", "1")}}, "a:1", false},
	{"through a symlink of the same layer", layers{{dirM("usr/lib"), symM("lib", "usr/lib"), legacyM("lib/a", "1")}}, "usr/lib/a:1", true},
	{"through a symlink of a lower layer", layers{{dirM("usr/lib"), symM("lib", "usr/lib"), legacyM("usr/lib/a", "1")}, {legacyM("lib/a", "2")}}, "usr/lib/a:2", true},
	{"through an absolute symlink", layers{{dirM("usr/lib"), symM("lib", "/usr/lib")}, {legacyM("lib/a", "2")}}, "usr/lib/a:2", true},
	{"through a symlink that would leave the root", layers{{symM("lib", "../../../usr")}, {legacyM("lib/a", "2")}}, "usr/a:2", true},
	{"through a chain of symlinks", layers{{dirM("x/y"), symM("l1", "x"), symM("x/l2", "../x/y")}, {legacyM("l1/l2/a", "2")}}, "x/y/a:2", true},
	{"through a dangling symlink", layers{{symM("lib", "usr/lib")}, {legacyM("lib/a", "2")}}, "usr/lib/a:2", true},
	{"whiteout through a symlink", layers{{dirM("usr/lib"), symM("lib", "usr/lib"), legacyM("usr/lib/a", "1"), legacyM("b", "1")}, {fileM("lib/.wh.a", nil)}}, "b:1", true},
	{"a symlink is replaced, not followed", layers{{legacyM("a", "1"), symM("b", "a")}, {legacyM("b", "2")}}, "a:1 b:2", true},
	{"a name with .. inside the root", layers{{dirM("d"), legacyM("d/../a", "1")}}, "a:1", true},
	{"not followed into files of other kinds", layers{{{tar.Header{Typeflag: tar.TypeFifo, Name: "p", Mode: 0o600}, nil}, legacyM("a", "1")}}, "a:1", true},
}

func TestVisible(t *testing.T) {
	for _, tc := range visibleCases {
		t.Run(tc.name, func(t *testing.T) {
			f, _, err := scanImage(t, stack(t, tc.layers...))
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(t, f); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestVisibleAsUnpacked asks another implementation: umoci unpacks the same layers, and the
// legacy files in the folder must be the ones that the scan found.
func TestVisibleAsUnpacked(t *testing.T) {
	asRoot(t, "umoci unpacks with owners")
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
			p := must[layout.Path](t)(layout.Write(filepath.Join(dir, "img"), empty.Index))
			if err := p.AppendImage(stack(t, tc.layers...), layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "x"})); err != nil {
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

// unpacked is summary for a folder.
func unpacked(t *testing.T, root string) string {
	byID := map[fileID]int{}
	var all []string
	var texts []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(b, callTime) {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		id, _ := identify(fi)
		if n, ok := byID[id]; ok {
			all[n] += "=" + rel
			return nil
		}
		byID[id] = len(all)
		all = append(all, rel)
		texts = append(texts, string(b[legacyCode+len(callTime):]))
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

// TestBadLayers: each is an error that names the layer, and the member where there is one.
func TestBadLayers(t *testing.T) {
	long := strings.Repeat("x/", 3000) + "x"
	for _, tc := range []struct {
		name   string
		layers layers
		want   string
	}{
		{"leaves the root", layers{{legacyM("../a", "1")}}, "../a: name leaves the root file system"},
		{"leaves the root later", layers{{legacyM("a/../../b", "1")}}, "a/../../b: name leaves the root"},
		{"hard link leaves the root", layers{{linkM("a", "../../etc/passwd")}}, "a: hard link: ../../etc/passwd: name leaves the root"},
		{"hard link to nothing", layers{{linkM("a", "b")}}, "a: hard link to b, which does not exist"},
		{"hard link to a folder", layers{{dirM("d"), linkM("a", "d")}}, "a: hard link to d, which is a folder"},
		{"symlink to itself", layers{{symM("l", "l")}, {legacyM("l/a", "1")}}, "l/a: too many levels of symbolic links"},
		{"symlinks in a ring", layers{{symM("l", "m"), symM("m", "l")}, {fileM("l/.wh.a", nil)}}, "too many levels of symbolic links"},
		{"file below a file of its layer", layers{{fileM("f", nil), legacyM("f/a", "1")}}, "f/a: f is not a folder"},
		{"long name", layers{{legacyM(long, "1")}}, "name of 6001 bytes, at most 4096"},
		{"whiteout of nothing", layers{{fileM("d/.wh.", nil)}}, "d/.wh.: whiteout of nothing"},
		{"whiteout of ..", layers{{fileM("d/.wh...", nil)}}, "d/.wh...: whiteout of nothing"},
		{"root is a file", layers{{{tar.Header{Typeflag: tar.TypeSymlink, Name: ".", Linkname: "/etc"}, nil}}}, "the root file system is not a folder"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			img := stack(t, tc.layers...)
			_, _, err := scanImage(t, img)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got error %v, want one with %q", err, tc.want)
			}
			ls := must[[]v1.Layer](t)(img.Layers())
			id := must[v1.Hash](t)(ls[len(ls)-1].DiffID())
			if prefix := "layer " + shortHash(id) + ": "; !strings.HasPrefix(err.Error(), prefix) {
				t.Errorf("got error %v, want it to begin with %q", err, prefix)
			}
		})
	}
}
