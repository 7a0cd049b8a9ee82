package images_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/tests/imagetest"
)

// rootTo rebuilds a directory to another one.
func rootTo(dir, to string) (*images.Rebuilt, error) {
	return images.Rebuild(context.Background(), "dir:"+dir, images.RebuildOptions{Dest: "dir:" + to})
}

// A rebuilt root filesystem is what patch makes of it, and verify proves it.
func TestRebuildToDirectory(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := imagetest.LegacyDir(t)
	work := t.TempDir()
	for name, mode := range map[string]os.FileMode{"": 0o751, "usr": 0o500, "bin/c": os.ModeSetuid | 0o751} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	sparse := filepath.Join(dir, "sparse")
	imagetest.Write(t, sparse, nil)
	if err := os.Truncate(sparse, 32<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(work+"/empty", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := patch.All(t.Context(), []string{dir}, patch.Options{Output: work + "/patched"}); err != nil {
		t.Fatal(err)
	}
	want := imagetest.Listing(t, work+"/patched")
	for _, to := range []string{work + "/new", work + "/empty/"} {
		r, err := rootTo(dir, to)
		if err != nil {
			t.Fatal(err)
		}
		if r.Reference != "dir:"+to || r.Digest != "" || len(r.Warnings) != 0 {
			t.Errorf("got %q, %q, warnings %q", r.Reference, r.Digest, r.Warnings)
		}
		if got := imagetest.Listing(t, to); got != want {
			t.Errorf("%s: got\n%s\nwant what patch makes:\n%s", to, got, want)
		}
		if !os.SameFile(imagetest.Stat(t, to+"/b"), imagetest.Stat(t, to+"/lib/a")) {
			t.Error("b and lib/a are not hard links of one file")
		}
		v, err := images.Verify(t.Context(), "dir:"+to, images.VerifyOptions{Against: "dir:" + dir})
		if err != nil || len(v.Problems) != 0 || v.Compared != 2 {
			t.Errorf("verify: got %+v, %v", v, err)
		}
	}
}

// Nothing is left of what cannot be written, and what is there stays.
func TestRebuildToDirectoryErrors(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	work := t.TempDir()
	imagetest.Write(t, work+"/file", []byte("x"))
	if err := os.Symlink("none", work+"/link"); err != nil {
		t.Fatal(err)
	}
	before := imagetest.Listing(t, work) + imagetest.FileListing(t, dir)
	for to, says := range map[string]string{
		work:             "not empty",
		dir + "/lib/new": "is inside",
		work + "/file":   "not a directory",
		work + "/link":   "not a directory",
		work + "/no/x":   "no directory ",
	} {
		if _, err := rootTo(dir, to); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("-o dir:%s: got %v, want %q", to, err, says)
		}
	}
	// One that fails in the middle.
	imagetest.Write(t, dir+"/.wh.x", nil)
	if _, err := rootTo(dir, work+"/new"); err == nil {
		t.Error("a file that a layer cannot hold: no error")
	}
	os.Remove(dir + "/.wh.x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := images.Rebuild(ctx, "dir:"+dir, images.RebuildOptions{Dest: "dir:" + work + "/new"}); err == nil {
		t.Error("cancelled: no error")
	}
	if after := imagetest.Listing(t, work) + imagetest.FileListing(t, dir); after != before {
		t.Errorf("got\n%s\nwas\n%s", after, before)
	}
}

// Files that cannot be unpacked are an error each time: a directory with a part of them would look whole. Nothing is left
// when the source is closed.
func TestRootThatCannotBeUnpacked(t *testing.T) {
	sound := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("a", []byte("a"))}))
	broken := imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("a", []byte("a")), imagetest.LinkM("b", "nothing")}))
	for name, fails := range map[string]bool{sound: false, broken: true} {
		src := imagetest.Must[*source.Source](t)(source.Open(t.Context(), name, source.Options{}))
		var dirs []string
		for range 2 {
			dir, err := images.Directory(t.Context(), src, source.Options{})
			if _, statErr := os.Stat(dir + "/a"); (err != nil) != fails || (statErr != nil) != fails {
				t.Errorf("%s: got %s, %v, %v", name, dir, err, statErr)
			}
			dirs = append(dirs, dir)
		}
		src.Close()
		for _, dir := range dirs {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s: %s is left", name, dir)
			}
		}
	}
}
