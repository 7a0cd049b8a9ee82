package media_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func TestDaemon(t *testing.T) {
	imagetest.CleanTemp(t)
	img := imagetest.TinyImage(t)
	d := imagetest.NewDaemon(t, img, "tiny:1")
	t.Setenv("DOCKER_HOST", "unix://"+d.Sock)
	src := imagetest.Open(t, "tiny:1")
	if src.Ref.Transport != media.Daemon || src.Ref.Guessed || src.Digest != "sha256:"+strings.Repeat("2", 64) {
		t.Errorf("got %+v, digest %s", src.Ref, src.Digest)
	}
	if want := (media.Ref{Transport: media.Daemon, Name: "tiny:1", Host: "unix://" + d.Sock}); src.Ref != want {
		t.Errorf("got %+v, want %+v", src.Ref, want)
	}
	imagetest.SameImage(t, src.Image, img)
	dest := imagetest.Must[media.Ref](t)(media.DefaultDest(context.Background(), src, "", "-vfix", media.Options{}))
	if want := (media.Ref{Transport: media.Daemon, Name: "tiny:1-vfix", Host: "unix://" + d.Sock}); dest != want {
		t.Errorf("default: got %+v", dest)
	}
	s := imagetest.Must[media.Stored](t)(sources.Put(context.Background(), dest, media.Result{Image: src.Image}, media.Options{}))
	if s.Reference != "tiny:1-vfix" || s.Digest != d.ID.String() {
		t.Errorf("got %+v", s)
	}
	imagetest.SameImage(t, imagetest.Open(t, imagetest.Write(t, t.TempDir()+"/loaded.tar", d.Loaded)).Image, img)
	err := imagetest.OpenErr(t, "docker-daemon:tiny:2")
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "no image tiny:2")
	// An image that was not pulled under its name is known by its ID.
	id := d.ID.String()
	d.Set(func() { d.Has["own:1"], d.Has[d.ID.Hex] = d.Has["tiny:1"], d.Has["tiny:1"] })
	for _, name := range []string{"own:1", d.ID.Hex} {
		if src := imagetest.Open(t, "docker-daemon:"+name); src.Digest != id {
			t.Errorf("%s: got the digest %s, want %s", name, src.Digest, id)
		}
	}
	// It is given one image of an index, and says so.
	var notes imagetest.Notes
	_, err = sources.Put(t.Context(), dest, media.Result{Image: img, Index: imagetest.TinyIndex(t)}, media.Options{Options: registry.Options{Progress: &notes}})
	if err != nil || len(notes.Text) != 1 || !strings.Contains(notes.Text[0], "a daemon is given one platform") || notes.Unfinished.Load() != 0 {
		t.Errorf("got %v, notes %q, %d tasks have not ended", err, notes.Text, notes.Unfinished.Load())
	}
	_, err = sources.Put(t.Context(), media.Ref{Transport: media.Daemon, Name: "UPPER"}, media.Result{Image: img}, media.Options{})
	imagetest.WantErr(t, err, nil, "is not the name of an image")
}

// A failure in a daemon is an error with its cause, and no file is left.
func TestDaemonFails(t *testing.T) {
	imagetest.CleanTemp(t)
	img := imagetest.TinyImage(t)
	d := imagetest.NewDaemon(t, img, "tiny:1")
	t.Setenv("DOCKER_HOST", "unix://"+d.Sock)
	r := media.Result{Image: imagetest.Open(t, "tiny:1").Image}
	to := media.Ref{Transport: media.Daemon, Name: "tiny:1-vfix"}

	d.Set(func() { d.CutSave = true })
	imagetest.WantErr(t, imagetest.OpenErr(t, "tiny:1"), nil, "docker daemon unix://"+d.Sock, "tiny:1", "unexpected EOF")
	d.Set(func() { d.CutSave = false })

	d.Set(func() {
		d.LoadSays = `{"stream":"x"}{"errorDetail":{"message":"no space left on device"},"error":"no space left on device"}`
	})
	_, err := sources.Put(context.Background(), to, r, media.Options{})
	imagetest.WantErr(t, err, nil, "docker daemon unix://"+d.Sock, "no space left on device")
	d.Set(func() { d.LoadSays = `{"stream":` })
	_, err = sources.Put(context.Background(), to, r, media.Options{})
	imagetest.WantErr(t, err, io.ErrUnexpectedEOF, "answer to the load")
	d.Set(func() { d.LoadReads = 100 })
	_, err = sources.Put(context.Background(), to, r, media.Options{})
	imagetest.WantErr(t, err, nil, "docker daemon unix://"+d.Sock)
	d.Set(func() { d.LoadSays, d.LoadReads = `{"stream":"Loaded image: tiny:1-vfix\n"}`, -1 })
	_, err = sources.Put(context.Background(), to, r, media.Options{})
	imagetest.WantErr(t, err, nil, "No such image") // it says so and has not

	// A layer that cannot be read is the cause, not the stream it broke.
	b := newBadLayout(t)
	data := b.read(b.layer0)
	data[len(data)-9] ^= 1
	b.overwrite(b.layer0, data)
	d.Set(func() { d.LoadSays = "" })
	_, err = sources.Put(context.Background(), to, media.Result{Image: imagetest.Open(t, b.dir).Image}, media.Options{})
	imagetest.WantErr(t, err, hinterr.ErrDamaged, b.layer0.String())

	d.Set(func() { d.LoadSays = "" })
	if _, err := sources.Put(context.Background(), to, r, media.Options{}); err != nil {
		t.Errorf("nothing wrong any more: %v", err)
	}
	d.Set(func() { d.Rest = d.Rest[:1] })
	_, err = sources.Put(context.Background(), to, r, media.Options{})
	imagetest.WantErr(t, err, hinterr.ErrDamaged, "got layers")
}

// With no host chosen, sockets in their usual places are tried in turn; also podman's.
func TestDaemonPlaces(t *testing.T) {
	img := imagetest.TinyImage(t)
	d := imagetest.NewDaemon(t, img, "tiny:1")
	home, run := t.TempDir(), imagetest.Must[string](t)(os.MkdirTemp("", "r"))
	t.Cleanup(func() { os.RemoveAll(run) })
	t.Setenv("HOME", home)
	t.Setenv("XDG_RUNTIME_DIR", run)
	for _, v := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST"} {
		t.Setenv(v, "")
	}
	where := func() string {
		t.Helper()
		var urls []string
		for _, h := range imagetest.Must[[]engine.Host](t)(media.DockerHosts()) {
			if strings.Contains(h.URL, run) || strings.Contains(h.URL, home) || strings.Contains(h.URL, d.Sock) {
				urls = append(urls, h.URL)
			}
		}
		return strings.Join(urls, " ")
	}
	if got := where(); got != "" {
		t.Errorf("with no socket: got %s", got)
	}
	os.Mkdir(run+"/podman", 0o755)
	if err := os.Symlink(d.Sock, run+"/podman/podman.sock"); err != nil {
		t.Fatal(err)
	}
	if got := where(); got != "unix://"+run+"/podman/podman.sock" {
		t.Errorf("with podman: got %s", got)
	}

	// A context in docker's config.
	sum := sha256.Sum256([]byte("mine"))
	meta := home + "/.docker/contexts/meta/" + hex.EncodeToString(sum[:])
	if err := os.MkdirAll(meta, 0o755); err != nil {
		t.Fatal(err)
	}
	imagetest.Write(t, meta+"/meta.json", []byte(`{"Name":"mine","Endpoints":{"docker":{"Host":"unix://`+d.Sock+`"}}}`))
	imagetest.Write(t, home+"/.docker/config.json", []byte(`{"currentContext":"mine"}`))
	if got := where(); got != "unix://"+d.Sock {
		t.Errorf("context: got %s", got)
	}
	imagetest.SameImage(t, imagetest.Open(t, "docker-daemon:tiny:1").Image, img)
	t.Setenv("DOCKER_CONTEXT", "default")
	if got := where(); got != "unix://"+run+"/podman/podman.sock" {
		t.Errorf("DOCKER_CONTEXT=default: got %s", got)
	}
	t.Setenv("DOCKER_CONTEXT", "none")
	_, err := media.DockerHosts()
	imagetest.WantErr(t, err, hinterr.ErrNoDaemon, `docker context "none"`)
	// A context with an error is reported, and nothing else is tried.
	t.Setenv("DOCKER_CONTEXT", "mine")
	for text, says := range map[string]string{
		`{"Endpoints":{"kubernetes":{"Host":"x"}}}`: "it has no docker endpoint", `{`: "meta.json: ", strings.Repeat(" ", blob.MaxConfig+1): "want at most",
	} {
		imagetest.Write(t, meta+"/meta.json", []byte(text))
		_, err := media.DockerHosts()
		imagetest.WantErr(t, err, nil, `docker context "mine": `, says)
		imagetest.WantErr(t, imagetest.OpenErr(t, "docker-daemon:tiny:1"), nil, says)
	}
	imagetest.Write(t, meta+"/meta.json", []byte(`{"Endpoints":{"docker":{"Host":"tcp://h:1"}}}`))
	tls := strings.Replace(meta, "/meta/", "/tls/", 1) + "/docker"
	for n, want := range []engine.Host{{URL: "tcp://h:1"}, {URL: "tcp://h:1"}, {URL: "tcp://h:1", TLS: tls}} {
		switch n { // nothing, a file, a directory
		case 1:
			if err := os.MkdirAll(filepath.Dir(tls), 0o755); err != nil {
				t.Fatal(err)
			}
			imagetest.Write(t, tls, nil)
		case 2:
			os.Remove(tls)
			os.Mkdir(tls, 0o755)
		}
		if h := imagetest.Must[[]engine.Host](t)(media.DockerHosts()); len(h) != 1 || h[0] != want {
			t.Errorf("context: got %+v, want %+v", h, want)
		}
	}
	t.Setenv("DOCKER_CONTEXT", "")
	imagetest.Write(t, home+"/.docker/config.json", []byte(`{`))
	_, err = media.DockerHosts()
	imagetest.WantErr(t, err, nil, home+"/.docker/config.json: ")
	imagetest.Write(t, home+"/.docker/config.json", []byte(`{}`))
	if got := where(); got != "unix://"+run+"/podman/podman.sock" {
		t.Errorf("a config without a context: got %s", got)
	}
	os.Remove(home + "/.docker/config.json")

	// All that is there is tried: rootless docker's and Docker Desktop's before podman's; a file is not a socket.
	os.MkdirAll(home+"/.docker/run", 0o755)
	imagetest.Write(t, run+"/docker.sock", nil)
	if err := os.Symlink(imagetest.NewDaemon(t, img).Sock, home+"/.docker/run/docker.sock"); err != nil { // one without the image
		t.Fatal(err)
	}
	t.Setenv("CONTAINER_HOST", "unix://"+d.Sock)
	if got, want := where(), "unix://"+home+"/.docker/run/docker.sock unix://"+d.Sock+" unix://"+run+"/podman/podman.sock"; got != want {
		t.Errorf("several: got %s, want %s", got, want)
	}
	if dest := imagetest.Must[media.Ref](t)(media.DefaultDest(t.Context(), &media.Source{Ref: media.Ref{Transport: media.Daemon, Name: "a"}}, "", "-x", media.Options{})); strings.HasSuffix(dest.Host, "podman/podman.sock") || dest.Podman {
		t.Errorf("several: got %+v", dest)
	}
	imagetest.SameImage(t, imagetest.Open(t, "docker-daemon:tiny:1").Image, img)
	podman := media.Ref{Transport: media.Daemon, Name: "a", Podman: true}
	want := media.Ref{Transport: media.Daemon, Name: "a:latest-x", Podman: true, Host: "unix://" + d.Sock}
	if dest := imagetest.Must[media.Ref](t)(media.DefaultDest(t.Context(), &media.Source{Ref: podman}, "", "-x", media.Options{})); dest != want {
		t.Errorf("podman: got %+v, want %+v", dest, want)
	}
	os.Remove(home + "/.docker/run/docker.sock")
	if err := os.Remove(run + "/docker.sock"); err != nil {
		t.Fatal(err)
	}

	// Podman alone; the one at an address; several that do not answer.
	imagetest.SameImage(t, imagetest.Open(t, "podman:tiny:1").Image, img)
	for only, want := range map[string]string{"": "", "unix://" + d.Sock: "", "unix:///run/podman/elsewhere.sock": "no docker or podman daemon: no socket at"} {
		err := media.EachDaemon(t.Context(), only, media.Options{}.WithDefaults(), func(c *engine.Client) (bool, error) {
			if only != "" && c.Host != only {
				t.Errorf("%s: got %s", only, c.Host)
			}
			return true, nil
		})
		if want == "" && err != nil || want != "" && (!media.IsNoDaemon(err) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", only, err, want)
		}
	}
	if !media.Answers(t.Context(), media.Options{}) {
		t.Error("none answers")
	}
	tried := 0
	if err := media.EachDaemon(t.Context(), "", media.Options{}.WithDefaults(), func(*engine.Client) (bool, error) { tried++; return false, nil }); err != nil || tried < 2 {
		t.Errorf("got %v after %d", err, tried)
	}
	os.Remove(run + "/podman/podman.sock")
	t.Setenv("CONTAINER_HOST", "tcp://127.0.0.1:1")
	imagetest.WantErr(t, imagetest.OpenErr(t, "podman:tiny:1"), hinterr.ErrNoDaemon, "127.0.0.1:1")

	t.Setenv("DOCKER_HOST", "unix:///elsewhere")
	if h := imagetest.Must[[]engine.Host](t)(media.DockerHosts()); len(h) != 1 || h[0].URL != "unix:///elsewhere" {
		t.Errorf("DOCKER_HOST: got %+v", h)
	}
}

func TestDefaultDest(t *testing.T) {
	d := imagetest.NewDaemon(t, imagetest.TinyImage(t))
	t.Setenv("DOCKER_HOST", "unix://"+d.Sock)
	digest := "sha256:" + strings.Repeat("a", 64)
	for _, c := range []struct {
		ref       media.Ref
		tag, want string
	}{
		{media.Ref{Transport: media.Daemon, Name: "redis:2.8.22"}, "", "redis:2.8.22-vfix"},
		{media.Ref{Transport: media.Daemon, Name: "redis"}, "", "redis:latest-vfix"},
		{media.Ref{Transport: media.Registry, Name: "localhost:5000/a/b"}, "", "localhost:5000/a/b:latest-vfix"},
		{media.Ref{Transport: media.Registry, Name: "h:5000/a@" + digest}, "", "h:5000/a:vfix"},
		{media.Ref{Transport: media.Registry, Name: "redis:2@" + digest}, "", "redis:2-vfix"},
		{media.Ref{Transport: media.Registry, Name: "redis:2"}, "mine", "redis:mine"},
		{media.Ref{Transport: media.Registry, Name: "redis:2"}, "mine:1", "mine:1"},
		{media.Ref{Transport: media.DockerArchive, Name: "/x/a.tar", Tag: "redis:2"}, "", "redis:2-vfix"},
		{media.Ref{Transport: media.DockerArchive, Name: "/x/My Image_1.tar.gz"}, "", "my-image-1:latest-vfix"},
		{media.Ref{Transport: media.OCILayout, Name: "/x/lay", Tag: "2.8"}, "", "lay:2.8-vfix"},
		{media.Ref{Transport: media.OCILayout, Name: "/x/lay", Tag: "docker.io/library/redis:2"}, "", "docker.io/library/redis:2-vfix"},
		{media.Ref{Transport: media.OCIArchive, Name: "/x/ÜÜ.tar"}, "", "image:latest-vfix"},
	} {
		got, err := media.DefaultDest(context.Background(), &media.Source{Ref: c.ref}, c.tag, "-vfix", media.Options{})
		if err != nil || got.Name != c.want || got.Transport != media.Daemon {
			t.Errorf("%v, -t %q: got %+v, %v, want %s", c.ref, c.tag, got, err, c.want)
		}
	}
	_, err := media.DefaultDest(context.Background(), &media.Source{Ref: media.Ref{Transport: media.Daemon, Name: digest}}, "", "-vfix", media.Options{})
	imagetest.WantErr(t, err, nil, "an image ID gives no name")
	for _, c := range []struct{ name, tag, hint string }{{"a b", "", "-t NAME:TAG"}, {"a", "b:c:d", ""}} {
		_, err := media.DefaultDest(context.Background(), &media.Source{Ref: media.Ref{Transport: media.Daemon, Name: c.name}}, c.tag, "-vfix", media.Options{})
		imagetest.WantErr(t, err, hinterr.ErrNotFound, "is not the name of an image")
		if got := hinterr.HintOf(err); got != c.hint {
			t.Errorf("%s: got the hint %q, want %q", c.name, got, c.hint)
		}
	}
	imagetest.NoDaemon(t)
	_, err = media.DefaultDest(context.Background(), &media.Source{Ref: media.Ref{Transport: media.Registry, Name: "h:5000/a/redis:2"}}, "", "-vfix", media.Options{})
	imagetest.WantErr(t, err, hinterr.ErrNoDaemon, "none.sock")
	if h := hinterr.HintOf(err); h != "write a file: -o oci-archive:redis-2-vfix.tar, or -o docker-archive:redis-2-vfix.tar:h:5000/a/redis:2-vfix for docker load" {
		t.Errorf("hint: %q", h)
	}
}

// A load that nobody ends is ended by the context.
func TestDaemonCancelled(t *testing.T) {
	d := imagetest.NewDaemon(t, imagetest.TinyImage(t), "tiny:1")
	t.Setenv("DOCKER_HOST", "unix://"+d.Sock)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := sources.Put(ctx, media.Ref{Transport: media.Daemon, Name: "tiny:1-vfix"}, media.Result{Image: imagetest.TinyImage(t)}, media.Options{Options: registry.Options{Progress: cancelAtStart{cancel: cancel}}})
	imagetest.WantErr(t, err, context.Canceled)
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.Has["tiny:1-vfix"] != nil && bytes.Contains(d.Loaded, []byte(media.ArchiveManifest)) {
		t.Error("the whole image was loaded")
	}
}
