package images

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unpackedLayers writes an image of these layers as a layout, unpacks it, and returns the folder.
func unpackedLayers(t *testing.T, layers ...[]testMember) (string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	if _, err := Put(t.Context(), Ref{Transport: OCILayout, Name: dir}, Result{Image: stack(t, layers...)}, MediaOptions{}); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	return to, Unpack(t.Context(), "oci:"+dir, to, MediaOptions{})
}

func TestUnpack(t *testing.T) {
	exec := fileM("bin/tool", []byte("tool"))
	exec.Mode = 0o4755
	dir, err := unpackedLayers(t,
		[]testMember{
			dirM("bin"), exec, linkM("bin/also", "bin/tool"), symM("lib64", "/usr/lib"), dirM("usr/lib"),
			fileM("etc/gone", []byte("x")), fileM("etc/stays", []byte("old")), fileM("opt/a/deep", []byte("x")),
		},
		[]testMember{
			fileM("etc/.wh.gone", nil), fileM("etc/stays", []byte("new")), fileM("opt/a/.wh..wh..opq", nil),
			fileM("lib64/libx", []byte("through the link")),
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
	for _, name := range []string{"etc/gone", "opt/a/deep", "etc/.wh.gone"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	a, _ := os.Stat(filepath.Join(dir, "bin/tool"))
	b, _ := os.Stat(filepath.Join(dir, "bin/also"))
	if a.Mode() != 0o755 || !os.SameFile(a, b) {
		t.Errorf("bin/tool: mode %v, want 755 without setuid, one file with bin/also", a.Mode())
	}
	if to, err := os.Readlink(filepath.Join(dir, "lib64")); to != "/usr/lib" {
		t.Errorf("lib64: got a link to %q, %v", to, err)
	}
}

// TestUnpackStaysInside has names that lead out of the folder.
func TestUnpackStaysInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for _, members := range [][]testMember{
		{fileM("../outside", []byte("x"))},
		{symM("a", outside), fileM("a/x", []byte("x"))},
		{symM("a", ".."), fileM("a/x", []byte("x"))},
		{symM("a", outside), fileM("a", []byte("x"))},
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
				t.Errorf("beside the folder there is %s", e.Name())
			}
		}
	}
}

func TestUnpackFolder(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "x"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(t.Context(), "dir:"+from, to, MediaOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "x")); err != nil {
		t.Error(err)
	}
	if err := Unpack(t.Context(), filepath.Join(from, "x"), t.TempDir(), MediaOptions{}); err == nil {
		t.Error("a file is no root filesystem: want an error")
	}
}
