package images_test

import (
	"archive/tar"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// unpackedLayers writes an image of these layers as a layout, unpacks it, and returns the directory.
func unpackedLayers(t *testing.T, layers ...[]imagetest.TestMember) (string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	if _, err := sources.Put(t.Context(), media.Ref{Transport: media.OCILayout, Name: dir}, media.Result{Image: imagetest.Stack(t, layers...)}, media.Options{}); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	return to, images.Unpack(t.Context(), "oci:"+dir, to, media.Options{})
}

func TestUnpack(t *testing.T) {
	exec := imagetest.FileM("bin/tool", []byte("tool"))
	exec.Mode = 0o4755
	closed, pipe := imagetest.DirM("closed"), imagetest.FileM("pipe", nil)
	closed.Mode, pipe.Typeflag = 0o1010, tar.TypeFifo
	dir, err := unpackedLayers(t,
		[]imagetest.TestMember{
			imagetest.DirM("bin"), exec, imagetest.LinkM("bin/also", "bin/tool"), imagetest.SymM("lib64", "/usr/lib"), imagetest.DirM("usr/lib"),
			imagetest.FileM("etc/gone", []byte("x")), imagetest.FileM("etc/stays", []byte("old")), imagetest.FileM("opt/a/deep", []byte("x")),
			imagetest.FileM("lib64/libx", []byte("through the link")), closed, imagetest.FileM("closed/x", nil), pipe, imagetest.LinkM("symlink", "lib64"),
		},
		[]imagetest.TestMember{
			imagetest.FileM("etc/.wh.gone", nil), imagetest.FileM("etc/stays", []byte("new")), imagetest.FileM("opt/a/.wh..wh..opq", nil),
		})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"bin/tool": "tool", "bin/also": "tool", "etc/stays": "new", "usr/lib/libx": "through the link",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"etc/gone", "opt/a/deep", "etc/.wh.gone", "pipe"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	a, _ := os.Stat(filepath.Join(dir, "bin/tool"))
	b, _ := os.Stat(filepath.Join(dir, "bin/also"))
	if a.Mode() != 0o755 || !os.SameFile(a, b) {
		t.Errorf("bin/tool: mode %v, want 755 without setuid, one file with bin/also", a.Mode())
	}
	for name, mode := range map[string]fs.FileMode{"bin/tool": 0o755, "closed": fs.ModeDir | 0o710, "closed/x": 0o644} {
		if fi := imagetest.Stat(t, filepath.Join(dir, name)); fi.Mode() != mode || !fi.ModTime().Equal(imagetest.TestTime) {
			t.Errorf("%s: got %v of %v, want %v of %v", name, fi.Mode(), fi.ModTime(), mode, imagetest.TestTime)
		}
	}
	if a, b := imagetest.Stat(t, dir+"/lib64"), imagetest.Stat(t, dir+"/symlink"); !os.SameFile(a, b) {
		t.Error("lib64 and symlink are two symlinks")
	}
	if to, err := os.Readlink(filepath.Join(dir, "lib64")); to != "/usr/lib" {
		t.Errorf("lib64: got a link to %q, %v", to, err)
	}
}

// TestUnpackStaysInside has names that lead out of the directory.
func TestUnpackStaysInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for _, members := range [][]imagetest.TestMember{
		{imagetest.FileM("../outside", []byte("x"))},
		{imagetest.SymM("a", outside), imagetest.FileM("a/x", []byte("x"))},
		{imagetest.SymM("a", ".."), imagetest.FileM("a/x", []byte("x"))},
		{imagetest.SymM("a", outside), imagetest.FileM("a", []byte("x"))},
	} {
		dir, err := unpackedLayers(t, members)
		if _, statErr := os.Lstat(outside); statErr == nil {
			t.Fatalf("%s was written (%v)", outside, err)
		}
		entries, readErr := os.ReadDir(filepath.Dir(dir))
		if readErr != nil {
			t.Fatal(readErr)
		}
		for _, e := range entries {
			if !slices.Contains([]string{filepath.Base(dir)}, e.Name()) && !strings.HasPrefix(e.Name(), "00") {
				t.Errorf("beside the directory there is %s", e.Name())
			}
		}
	}
}

func TestUnpackDir(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "x"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := images.Unpack(t.Context(), "dir:"+from, to, media.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "x")); err != nil {
		t.Error(err)
	}
	if err := images.Unpack(t.Context(), "dir:"+from, to, media.Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file is there: got %v", err)
	}
	if err := images.Unpack(t.Context(), filepath.Join(from, "x"), t.TempDir(), media.Options{}); err == nil {
		t.Error("a file is not a root filesystem: want an error")
	}
}

// Each layer is read once, whatever of it is visible, and nothing else is left in the directory.
func TestUnpackReadsOnce(t *testing.T) {
	lower := []imagetest.TestMember{
		imagetest.FileM("bin/tool", []byte("tool")), imagetest.LinkM("bin/also", "bin/tool"), imagetest.FileM("etc/hidden", []byte("x")), imagetest.FileM("etc/old", []byte("old")),
		imagetest.FileM(".vfix-unpacking", []byte("a file of the image")),
	}
	upper := []imagetest.TestMember{imagetest.FileM("etc/.wh.hidden", nil), imagetest.FileM("etc/old", []byte("new"))}
	for name, c := range map[string]struct {
		layers [][]imagetest.TestMember
		read   []int // how often each is
	}{
		"two layers":    {[][]imagetest.TestMember{lower, upper}, []int{1, 1}},
		"a layer again": {[][]imagetest.TestMember{lower, upper, lower}, []int{1, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var counted []*countedLayer
			img := fixedLayers{}
			for _, members := range c.layers {
				counted = append(counted, &countedLayer{Layer: imagetest.BytesLayer(t, imagetest.TarMembers(t, members...))})
				img.layers = append(img.layers, counted[len(counted)-1])
			}
			dir := t.TempDir()
			if err := sources.Unpack(t.Context(), img, dir, media.Options{}); err != nil {
				t.Fatal(err)
			}
			for n, l := range counted {
				if l.n != c.read[n] {
					t.Errorf("layer %d was read %d times, want %d", n, l.n, c.read[n])
				}
			}
			want := map[string]string{"bin/tool": "tool", "bin/also": "tool", "etc/old": "new", ".vfix-unpacking": "a file of the image"}
			if len(c.layers) == 3 {
				want["etc/old"], want["etc/hidden"] = "old", "x"
			}
			got := map[string]string{}
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				content, err := os.ReadFile(path)
				got[strings.TrimPrefix(path, dir+"/")] = string(content)
				return err
			})
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 3 {
				t.Errorf("got %v", entries)
			}
		})
	}
}
