// Small images, indexes and tar archives, and how they are stored.

package imagetest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"

	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/progress"
)

// Must stops the test at an error.
func Must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TarOf makes a tar archive of names and contents, in that order.
func TarOf(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for n := 0; n < len(files); n += 2 {
		if err := TarBytes(tw, files[n], []byte(files[n+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func GzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// BlobLayer is a layer given as its bytes.
type BlobLayer struct {
	v1.Layer
	ID v1.Hash
}

func (l BlobLayer) DiffID() (v1.Hash, error) { return l.ID, nil }

func (l BlobLayer) Uncompressed() (io.ReadCloser, error) {
	rc, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	return gzip.NewReader(rc)
}

// PlatformImage makes a docker image with two gzip'ed layers that differ with seed.
func PlatformImage(t testing.TB, arch, seed string) v1.Image {
	t.Helper()
	var layers []v1.Layer
	for _, f := range []string{"etc/base", "etc/top"} {
		plain := TarOf(t, f, seed+strings.Repeat("0123456789", 500))
		diffID, _, err := v1.SHA256(bytes.NewReader(plain))
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, BlobLayer{static.NewLayer(GzipOf(t, plain), types.DockerLayer), diffID})
	}
	img := Must[v1.Image](t)(mutate.AppendLayers(empty.Image, layers...))
	cf := Must[*v1.ConfigFile](t)(img.ConfigFile())
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture = "linux", arch
	switch arch {
	case "arm64":
		cf.Variant = "v8"
	case "unknown":
		cf.OS = arch
	}
	cf.Config.Cmd = []string{"/bin/sh"}
	return Must[v1.Image](t)(mutate.ConfigFile(img, cf))
}

func TinyImage(t testing.TB) v1.Image { return PlatformImage(t, "amd64", "tiny") }

// tasks is a Progress for a call, and a check that all it begins has ended.
func tasks(t testing.TB, of string) (o source.Options, ended func()) {
	n := &Notes{}
	o.Progress = n
	return o, func() {
		t.Helper()
		if left := n.Unfinished.Load(); left != 0 {
			t.Errorf("%s: %d tasks have not ended", of, left)
		}
	}
}

// Put stores an image under a DEST as a user types it.
func Put(t testing.TB, dest string, r source.Result) source.Stored {
	t.Helper()
	ref := Must[source.Ref](t)(source.ParseRef(dest))
	o, ended := tasks(t, dest)
	defer ended()
	return Must[source.Stored](t)(source.Put(context.Background(), ref, r, o))
}

// Open opens a SOURCE for the length of a test.
func Open(t testing.TB, typed string) *source.Source {
	t.Helper()
	o, ended := tasks(t, typed)
	src := Must[*source.Source](t)(source.Open(context.Background(), typed, o))
	ended()
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src
}

// WantErr checks an error's kind and that its text has all of parts.
func WantErr(t testing.TB, err, kind error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if kind != nil && !errors.Is(err, kind) {
		t.Errorf("error %q: is not %q", err, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q: does not say %q", err, p)
		}
	}
}

// CleanTemp makes a directory for temporary files of its own and checks at the end of the test
// that nothing is left there, and (on Linux) that none of the test's files is still open.
func CleanTemp(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	t.Cleanup(func() {
		WantEmpty(t, dir)
		open, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range open {
			if to, _ := os.Readlink(fd); strings.HasPrefix(to, filepath.Dir(dir)+"/") {
				t.Errorf("still open: %s", to)
			}
		}
	})
}

// WantEmpty checks that a directory has nothing in it but the names allowed.
func WantEmpty(t testing.TB, dir string, allowed ...string) {
	t.Helper()
	for _, e := range Must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		if !slices.Contains(allowed, e.Name()) {
			t.Errorf("left over: %s", filepath.Join(dir, e.Name()))
		}
	}
}

// NoDaemon makes every search for a daemon come to nothing.
func NoDaemon(t *testing.T) {
	t.Helper()
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
}

// Notes is a Progress that remembers its notes, and counts its tasks.
type Notes struct {
	mu   sync.Mutex
	Text []string
	// Done are the bytes of all tasks, Unfinished the tasks that have not ended.
	Done, Unfinished atomic.Int64
}

type task struct{ n *Notes }

func (n *Notes) Start(string, string, int64) progress.Task { n.Unfinished.Add(1); return task{n} }
func (t task) Add(bytes int64)                             { t.n.Done.Add(bytes) }
func (t task) Done()                                       { t.n.Unfinished.Add(-1) }

func (n *Notes) Note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Text = append(n.Text, fmt.Sprintf(format, args...))
}

func Write(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
