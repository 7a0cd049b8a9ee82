package sources_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/tests/imagetest"
)

// openRoot opens the file system of an image.
func openRoot(t *testing.T, img v1.Image) *sources.Root {
	t.Helper()
	source := "oci:" + filepath.Join(t.TempDir(), "oci") + ":x"
	imagetest.Put(t, source, media.Result{Image: img})
	root, err := sources.OpenRoot(context.Background(), source, media.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// The files of an image, read by name as a process in it would.
func TestRoot(t *testing.T) {
	imagetest.CleanTemp(t)
	legacy := imagetest.LegacyM("usr/lib/libold.so", "1")
	img := imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.DirM("usr/lib"), imagetest.SymM("lib", "usr/lib"), legacy, imagetest.LinkM("usr/lib/same.so", "usr/lib/libold.so"),
			imagetest.SymM("usr/lib/rel.so", "../lib/./libold.so"), imagetest.SymM("usr/lib/abs.so", "/lib/libold.so"), imagetest.SymM("up", "../../../usr/lib/libold.so"),
			imagetest.SymM("loop", "loop"), imagetest.SymM("lost", "/nowhere"), imagetest.FileM("etc/a", []byte("below")), imagetest.FileM("etc/b", []byte("b")), imagetest.FileM("etc/empty", nil)},
		[]imagetest.TestMember{imagetest.FileM("etc/a", []byte("above")), imagetest.FileM("etc/.wh.b", nil), imagetest.FileM("etc/c", []byte("c"))})
	for want, c := range map[string]v1.Config{"": {}, "/app": {Entrypoint: []string{"/app"}}, "sh": {Cmd: []string{"sh", "-c"}}, "first": {Entrypoint: []string{"first"}, Cmd: []string{"x"}}} {
		if got := openRoot(t, imagetest.Must[v1.Image](t)(mutate.Config(img, c))).Program; got != want {
			t.Errorf("program: got %q, want %q", got, want)
		}
	}
	root := openRoot(t, img)
	for name, want := range map[string]string{
		"etc/a": "above", "etc/c": "c", "etc/empty": "", "usr/lib/libold.so": string(legacy.Body), "lib/libold.so": string(legacy.Body),
		"usr/lib/same.so": string(legacy.Body), "usr/lib/rel.so": string(legacy.Body), "usr/lib/abs.so": string(legacy.Body), "up": string(legacy.Body),
	} {
		got, err := fs.ReadFile(root.FS, name)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %d bytes, %v, want %d", name, len(got), err, len(want))
		}
	}
	for name, want := range map[string]error{
		"etc/b": fs.ErrNotExist, "lost": fs.ErrNotExist, "loop": rootpath.ErrLoop, "nothing/at/all": fs.ErrNotExist, "/etc/a": fs.ErrInvalid, "etc/a/x": nil,
	} {
		if _, err := fs.ReadFile(root.FS, name); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	entries, err := fs.ReadDir(root.FS, "etc")
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{"a", "c", "empty"}) {
		t.Errorf("etc: got %v, %v", names, err)
	}
	for what, err := range map[string]error{
		"a file as a directory": second(fs.ReadDir(root.FS, "etc/a")), "a directory as a file": second(fs.ReadFile(root.FS, "etc")), "a directory that is missing": second(fs.ReadDir(root.FS, "none")),
		"a source that is missing": second(sources.OpenRoot(t.Context(), "oci:"+t.TempDir()+"/none", media.Options{})),
		"a damaged layer":          second(sources.OpenRoot(t.Context(), imagetest.StoreOCI(t, imagetest.ImageOf(t, imagetest.BytesLayer(t, imagetest.Noise(5000)))), media.Options{})),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	f, err := root.FS.Open("etc/a")
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2)
	if n, err := f.(io.ReaderAt).ReadAt(b, 3); n != 2 || err != nil || string(b) != "ve" {
		t.Errorf("at an offset: got %q, %v", b[:n], err)
	}
}

// It is a file system in the sense of io/fs. fstest opens every file, so the image has no dangling symlinks.
func TestRootIsFS(t *testing.T) {
	img := imagetest.Stack(t, []imagetest.TestMember{imagetest.DirM("etc"), imagetest.FileM("etc/a", []byte("a")), imagetest.FileM("etc/b", nil), imagetest.DirM("usr/lib"), imagetest.FileM("usr/lib/c", []byte("c"))})
	root := openRoot(t, img)
	for _, name := range []string{"etc/a", "usr/lib/c"} {
		if got, err := fs.ReadFile(root.FS, name); err != nil || len(got) != 1 {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if err := fstest.TestFS(readDirFiles{root.FS}, "etc/a", "usr/lib/c"); err != nil {
		t.Error(err)
	}
}

// readDirFiles adds ReadDir, which fstest needs, to the directories of an fs.
type readDirFiles struct{ fs.FS }

func (r readDirFiles) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err == nil && fi.IsDir() {
		entries, err := fs.ReadDir(r.FS, name)
		return &readDirFile{f, entries}, err
	}
	return f, nil
}

type readDirFile struct {
	fs.File
	entries []fs.DirEntry
}

func (d *readDirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(d.entries)
	} else if len(d.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.entries))
	out := d.entries[:n]
	d.entries = d.entries[n:]
	return out, nil
}

func second[T any](_ T, err error) error { return err }

// A tarball has files, and nothing that says what runs.
func TestRootOfTarball(t *testing.T) {
	imagetest.CleanTemp(t)
	tarball := imagetest.Write(t, t.TempDir()+"/x.tar", imagetest.TarOf(t, "etc/a", "content"))
	root, err := sources.OpenRoot(t.Context(), tarball, media.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fs.ReadFile(root.FS, "etc/a"); string(got) != "content" || err != nil || root.Path != tarball || root.Source != tarball || root.Program != "" {
		t.Errorf("got %q, %v of %+v", got, err, root)
	}
	if err := root.Close(); err != nil {
		t.Error(err)
	}
}

// A directory is not read: its path is returned.
func TestRootOfDir(t *testing.T) {
	dir := t.TempDir()
	root, err := sources.OpenRoot(context.Background(), dir, media.Options{})
	if err != nil || root.FS != nil || root.Path != dir {
		t.Fatalf("got %+v, %v", root, err)
	}
	root.Close()
}
