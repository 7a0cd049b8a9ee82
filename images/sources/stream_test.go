package sources_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// feed makes a pipe with content, stdin or a named one, and returns what a user types for it.
func feed(t *testing.T, content []byte, named bool) string {
	t.Helper()
	if named {
		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Skip(err)
		}
		// Another process writes, so that its descriptor is not among those of the test, whose end ends it.
		writer := exec.CommandContext(t.Context(), "sh", "-c", `exec cat >"$0"`, fifo)
		writer.Stdin = bytes.NewReader(content)
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = writer.Wait() })
		return fifo
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() { w.Write(content); w.Close() }()
	old := os.Stdin
	os.Stdin = r
	t.Cleanup(func() { os.Stdin = old; r.Close() })
	return media.Stdin
}

// Input from a pipe is equal to input from a file, and no temporary file remains.
func TestStreams(t *testing.T) {
	imagetest.NoDaemon(t)
	img := imagetest.TinyImage(t)
	archive := imagetest.DockerSave(t, img, "app:1")
	ociPath := filepath.Join(t.TempDir(), "oci.tar")
	imagetest.Put(t, "oci-archive:"+ociPath+":app:2", media.Result{Image: img})
	oci := imagetest.Must[[]byte](t)(os.ReadFile(ociPath))
	imagetest.CleanTemp(t)
	for _, c := range []struct {
		name, prefix string
		content      []byte
		want         string // the ref, with NAME for what was typed
	}{
		{"docker save", "", archive, "docker-archive:NAME:app:1"},
		{"docker save, gzip", "", imagetest.GzipOf(t, archive), "docker-archive:NAME:app:1"},
		{"docker save, zstd", "", imagetest.ZstdOf(t, archive), "docker-archive:NAME:app:1"},
		{"docker save with a prefix", "docker-archive:", archive, "docker-archive:NAME:app:1"},
		{"OCI archive", "", oci, "oci-archive:NAME:app:2"},
		{"OCI archive with a prefix", "oci-archive:", oci, "oci-archive:NAME:app:2"},
		{"root filesystem", "", imagetest.TarOf(t, "bin/sh", "x"), "NAME"},
		{"ELF file", "", imagetest.LegacyELF("x"), "NAME"},
	} {
		for n, named := range []bool{false, true, false, false, false} {
			typed := feed(t, c.content, named)
			if n >= 2 {
				typed = []string{"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}[n-2]
			}
			src, err := sources.Open(t.Context(), c.prefix+typed, media.Options{})
			if err != nil {
				t.Errorf("%s, named %v: %v", c.name, named, err)
				continue
			}
			if got, want := src.Ref.String(), strings.Replace(c.want, "NAME", typed, 1); got != want {
				t.Errorf("%s, named %v: got %s, want %s", c.name, named, got, want)
			}
			if err := src.Close(); err != nil {
				t.Errorf("%s: close: %v", c.name, err)
			}
			imagetest.WantEmpty(t, os.TempDir())
		}
	}
}

func TestStreamErrors(t *testing.T) {
	imagetest.NoDaemon(t)
	imagetest.CleanTemp(t)
	_, err := sources.Open(t.Context(), feed(t, nil, false), media.Options{})
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "stdin", "empty")

	// Errors about a stream name the stream, not the file with its copy.
	img := imagetest.TinyImage(t)
	for _, named := range []bool{false, true} {
		typed := feed(t, imagetest.DockerSave(t, img, "app:1")[:3000], named)
		_, err = sources.Open(t.Context(), "docker-archive:"+typed, media.Options{})
		imagetest.WantErr(t, err, hinterr.ErrDamaged, map[bool]string{false: "stdin: docker archive: stdin: tar entry", true: typed + ": docker archive: " + typed + ": tar entry"}[named])
		two := imagetest.TarOf(t, "manifest.json", `[{"Config":"a","RepoTags":["a:1"]},{"Config":"b","RepoTags":["b:1"]}]`)
		_, err = sources.Open(t.Context(), feed(t, two, named), media.Options{})
		imagetest.WantErr(t, err, media.ErrSeveral, "2 images")
		if got, want := hinterr.HintOf(err), "add one of these after a colon: a:1 b:1"+map[bool]string{false: "; of stdin as docker-archive:-:TAG or oci-archive:-:TAG"}[named]; got != want {
			t.Errorf("got the hint %q, want %q", got, want)
		}
	}
	_, err = sources.Open(t.Context(), "docker-archive:"+feed(t, []byte("\x1f\x8b\b"), false), media.Options{})
	if err == nil || hinterr.HintOf(err) != "" || strings.Contains(err.Error(), os.TempDir()) {
		t.Errorf("got %v, hint %q", err, hinterr.HintOf(err))
	}
	defer blob.Temp.SetLimit(blob.DefaultTempLimit)
	blob.Temp.SetLimit(blob.CopyBuffer)
	_, err = sources.Open(t.Context(), feed(t, imagetest.Noise(4*blob.CopyBuffer), true), media.Options{})
	imagetest.WantErr(t, err, hinterr.ErrTooLarge, "fifo")
	imagetest.WantEmpty(t, os.TempDir())
}

// A pipe that nobody writes to is waited for until the command ends.
func TestStreamCancelled(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sources.Open(ctx, fifo, media.Options{})
	imagetest.WantErr(t, err, context.Canceled, fifo)
	imagetest.WantEmpty(t, temp)
	os.WriteFile(fifo, nil, 0) // or its reader would wait
}

// No registry is contacted for a name that is probably a file, or has a misspelled prefix; for other names a
// message comes first.
func TestMistypedNamesAskNoRegistry(t *testing.T) {
	imagetest.NoDaemon(t)
	t.Chdir(t.TempDir())
	imagetest.Write(t, "redis.tar", []byte("x"))
	if err := os.Mkdir("layout", 0o755); err != nil {
		t.Fatal(err)
	}
	for in, hint := range map[string]string{
		"redis.tra": "did you mean redis.tar?", "./redis.tra": "did you mean ./redis.tar?",
		"build/app.tar": "docker://build/app.tar", "app.tar.gz:latest": "docker://", "libc.so.6": "docker://", "app.oci": "docker://",
		"oci;layout": "did you mean oci:layout?", "oic:layout": "did you mean oci:layout? An image of that name in a registry is docker://oic:layout", "docker-archve:redis.tar": "did you mean docker-archive:redis.tar?",
		"dokcer-daemon:redis:1": "did you mean docker-daemon:redis:1?", "contianer:web": "did you mean container:web?",
		"Redis:1": "did you mean redis:1?", "a b": "see 'vfix help sources'", "redis.tar:redis:1": "docker-archive:redis.tar:redis:1",
	} {
		var notes imagetest.Notes
		_, err := sources.Open(t.Context(), in, media.Options{Options: registry.Options{Progress: &notes}})
		imagetest.WantErr(t, err, hinterr.ErrNotFound)
		if got := hinterr.HintOf(err); !strings.Contains(got, hint) {
			t.Errorf("%s: %v: got the hint %q, want %q in it", in, err, got, hint)
		}
		if len(notes.Text) > 0 {
			t.Errorf("%s: %q", in, notes.Text)
		}
	}
}

func TestRegistryIsAnnounced(t *testing.T) {
	imagetest.NoDaemon(t)
	f := imagetest.NewRegistry(t)
	var notes imagetest.Notes
	_, err := sources.Open(t.Context(), f.Host+"/no/such:1", media.Options{Options: registry.Options{Progress: &notes}})
	imagetest.WantErr(t, err, hinterr.ErrNotFound)
	if len(notes.Text) == 0 || !strings.Contains(notes.Text[0], "asking the registry "+f.Host) {
		t.Errorf("got %q", notes.Text)
	}
}

// An error of a local engine that has the image is one, and not a reason to ask a registry.
func TestDaemonFailsAlone(t *testing.T) {
	f := imagetest.NewRegistry(t)
	named := f.Host + "/tiny:1"
	d := imagetest.NewDaemon(t, imagetest.TinyImage(t), named)
	t.Setenv("DOCKER_HOST", "unix://"+d.Sock)
	d.Set(func() { d.CutSave = true })
	_, err := sources.Open(t.Context(), named, media.Options{})
	imagetest.WantErr(t, err, nil, "docker daemon unix://"+d.Sock)
	if n := f.Count(""); n != 0 {
		t.Errorf("%d requests to the registry: %q", n, f.Seen)
	}
	// One that does not have the image is.
	imagetest.Put(t, "docker://"+f.Host+"/other:1", media.Result{Image: imagetest.TinyImage(t)})
	if src := imagetest.Open(t, f.Host+"/other:1"); src.Ref.Transport != media.Registry {
		t.Errorf("got %+v", src.Ref)
	}
	err = imagetest.OpenErr(t, f.Host+"/none:1")
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "files: none of that name", "docker daemon: no image "+f.Host+"/none:1", "no such image")
	if hint := hinterr.HintOf(err); strings.Contains(hint, "docker pull") {
		t.Errorf("got the hint %q", hint)
	}
}
