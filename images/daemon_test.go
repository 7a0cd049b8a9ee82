package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// fakeDaemon answers as docker 20.10 does (API 1.41) to what vfix asks. The real one takes
// part in tests/; here are the answers that it does not give when asked.
type fakeDaemon struct {
	sock string
	mu   sync.Mutex
	has  map[string][]byte // archives by name
	id   v1.Hash
	rest []string // diff IDs
	// cutSave ends the answer to a save early; loadSays is the answer to a load; loadReads
	// is how much of it is read first, < 0 all.
	cutSave   bool
	loadSays  string
	loadReads int64
	loaded    []byte
}

func newDaemon(t *testing.T, img v1.Image, names ...string) *fakeDaemon {
	t.Helper()
	dir := must[string](t)(os.MkdirTemp("", "d")) // short: a socket's path has 108 bytes at most
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &fakeDaemon{sock: filepath.Join(dir, "d.sock"), has: map[string][]byte{}, loadReads: -1}
	for _, n := range names {
		d.has[n] = dockerSave(t, img)
	}
	d.id = must[v1.Hash](t)(img.ConfigName())
	for _, h := range must[*v1.ConfigFile](t)(img.ConfigFile()).RootFS.DiffIDs {
		d.rest = append(d.rest, h.String())
	}
	l := must[net.Listener](t)(net.Listen("unix", d.sock))
	s := &http.Server{Handler: d}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return d
}

// set changes how the daemon answers.
func (d *fakeDaemon) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *fakeDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("API-Version", "1.41")
	_, path, _ := strings.Cut(r.URL.Path, "/v1.41")
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case r.URL.Path == "/_ping":
	case path == "/images/get":
		data := d.has["tiny:1"]
		if d.cutSave {
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			data = data[:len(data)/2]
		}
		w.Write(data)
	case path == "/images/load":
		if d.loadReads >= 0 {
			r.Body = io.NopCloser(io.LimitReader(r.Body, d.loadReads))
		}
		d.loaded, _ = io.ReadAll(r.Body)
		if d.loadSays == "" {
			d.has["tiny:1-vfix"] = d.loaded
			d.loadSays = `{"stream":"Loaded image: tiny:1-vfix\n"}`
		}
		io.WriteString(w, d.loadSays)
	case strings.HasPrefix(path, "/images/") && strings.HasSuffix(path, "/json"):
		name := strings.TrimSuffix(strings.TrimPrefix(path, "/images/"), "/json")
		if d.has[name] == nil {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"message":"No such image"}`)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"Id": d.id.String(), "RootFS": map[string]any{"Type": "layers", "Layers": d.rest},
			"RepoDigests": []string{"other@sha256:" + strings.Repeat("1", 64), "docker.io/library/tiny@sha256:" + strings.Repeat("2", 64)}})
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

func TestDaemon(t *testing.T) {
	cleanTemp(t)
	img := tinyImage(t)
	d := newDaemon(t, img, "tiny:1")
	t.Setenv("DOCKER_HOST", "unix://"+d.sock)
	src := open(t, "tiny:1")
	if src.Ref.Transport != Daemon || src.Ref.Guessed || src.Digest != "sha256:"+strings.Repeat("2", 64) {
		t.Errorf("got %+v, digest %s", src.Ref, src.Digest)
	}
	sameImage(t, src.Image, img)
	dest := must[Ref](t)(DefaultDest(context.Background(), src, "", "-vfix", MediaOptions{}))
	if dest.Transport != Daemon || dest.Name != "tiny:1-vfix" {
		t.Errorf("default: got %+v", dest)
	}
	s := must[Stored](t)(Put(context.Background(), dest, Result{Image: src.Image}, MediaOptions{}))
	if s.Reference != "tiny:1-vfix" || s.Digest != d.id.String() {
		t.Errorf("got %+v", s)
	}
	sameImage(t, open(t, write(t, t.TempDir()+"/loaded.tar", d.loaded)).Image, img)
	err := openErr(t, "docker-daemon:tiny:2")
	wantErr(t, err, ErrNotFound, "no image tiny:2")
}

// What goes wrong in a daemon is an error with its cause, and no file is left.
func TestDaemonFails(t *testing.T) {
	cleanTemp(t)
	img := tinyImage(t)
	d := newDaemon(t, img, "tiny:1")
	t.Setenv("DOCKER_HOST", "unix://"+d.sock)
	r := Result{Image: open(t, "tiny:1").Image}
	to := Ref{Transport: Daemon, Name: "tiny:1-vfix"}

	d.set(func() { d.cutSave = true })
	wantErr(t, openErr(t, "tiny:1"), nil, "docker daemon unix://"+d.sock, "tiny:1", "unexpected EOF")
	d.set(func() { d.cutSave = false })

	d.set(func() {
		d.loadSays = `{"stream":"x"}{"errorDetail":{"message":"no space left on device"},"error":"no space left on device"}`
	})
	_, err := Put(context.Background(), to, r, MediaOptions{})
	wantErr(t, err, nil, "docker daemon unix://"+d.sock, "no space left on device")
	d.set(func() { d.loadReads = 100 })
	_, err = Put(context.Background(), to, r, MediaOptions{})
	wantErr(t, err, nil, "docker daemon unix://"+d.sock)
	d.set(func() { d.loadSays, d.loadReads = `{"stream":"Loaded image: tiny:1-vfix\n"}`, -1 })
	_, err = Put(context.Background(), to, r, MediaOptions{})
	wantErr(t, err, nil, "No such image") // it says so and has not

	// A layer that cannot be read is the cause, not the stream it broke.
	b := newBadLayout(t)
	data := b.read(b.layer0)
	data[len(data)-9] ^= 1
	b.overwrite(b.layer0, data)
	d.set(func() { d.loadSays = "" })
	_, err = Put(context.Background(), to, Result{Image: open(t, b.dir).Image}, MediaOptions{})
	wantErr(t, err, ErrDamaged, b.layer0.String())

	d.set(func() { d.loadSays = "" })
	if _, err := Put(context.Background(), to, r, MediaOptions{}); err != nil {
		t.Errorf("nothing wrong any more: %v", err)
	}
	d.set(func() { d.rest = d.rest[:1] })
	_, err = Put(context.Background(), to, r, MediaOptions{})
	wantErr(t, err, ErrDamaged, "got layers")
}

// With no host chosen, sockets in their usual places are tried in turn; podman's too.
func TestDaemonPlaces(t *testing.T) {
	img := tinyImage(t)
	d := newDaemon(t, img, "tiny:1")
	home, run := t.TempDir(), must[string](t)(os.MkdirTemp("", "r"))
	t.Cleanup(func() { os.RemoveAll(run) })
	t.Setenv("HOME", home)
	t.Setenv("XDG_RUNTIME_DIR", run)
	for _, v := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST"} {
		t.Setenv(v, "")
	}
	where := func() string {
		t.Helper()
		var urls []string
		for _, h := range must[[]dockerHost](t)(dockerHosts()) {
			if strings.Contains(h.url, run) || strings.Contains(h.url, home) || strings.Contains(h.url, d.sock) {
				urls = append(urls, h.url)
			}
		}
		return strings.Join(urls, " ")
	}
	if got := where(); got != "" {
		t.Errorf("with no socket: got %s", got)
	}
	os.Mkdir(run+"/podman", 0o755)
	if err := os.Symlink(d.sock, run+"/podman/podman.sock"); err != nil {
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
	write(t, meta+"/meta.json", []byte(`{"Name":"mine","Endpoints":{"docker":{"Host":"unix://`+d.sock+`"}}}`))
	write(t, home+"/.docker/config.json", []byte(`{"currentContext":"mine"}`))
	if got := where(); got != "unix://"+d.sock {
		t.Errorf("context: got %s", got)
	}
	sameImage(t, open(t, "docker-daemon:tiny:1").Image, img)
	t.Setenv("DOCKER_CONTEXT", "default")
	if got := where(); got != "unix://"+run+"/podman/podman.sock" {
		t.Errorf("DOCKER_CONTEXT=default: got %s", got)
	}
	t.Setenv("DOCKER_CONTEXT", "none")
	_, err := dockerHosts()
	wantErr(t, err, ErrNoDaemon, `docker context "none"`)
	t.Setenv("DOCKER_HOST", "unix:///elsewhere")
	if h := must[[]dockerHost](t)(dockerHosts()); len(h) != 1 || h[0].url != "unix:///elsewhere" {
		t.Errorf("DOCKER_HOST: got %+v", h)
	}
}

func TestDefaultDest(t *testing.T) {
	d := newDaemon(t, tinyImage(t))
	t.Setenv("DOCKER_HOST", "unix://"+d.sock)
	digest := "sha256:" + strings.Repeat("a", 64)
	for _, c := range []struct {
		ref       Ref
		tag, want string
	}{
		{Ref{Transport: Daemon, Name: "redis:2.8.22"}, "", "redis:2.8.22-vfix"},
		{Ref{Transport: Daemon, Name: "redis"}, "", "redis:latest-vfix"},
		{Ref{Transport: Registry, Name: "localhost:5000/a/b"}, "", "localhost:5000/a/b:latest-vfix"},
		{Ref{Transport: Registry, Name: "h:5000/a@" + digest}, "", "h:5000/a:vfix"},
		{Ref{Transport: Registry, Name: "redis:2@" + digest}, "", "redis:2-vfix"},
		{Ref{Transport: Registry, Name: "redis:2"}, "mine", "mine:latest"},
		{Ref{Transport: Registry, Name: "redis:2"}, "mine:1", "mine:1"},
		{Ref{Transport: DockerArchive, Name: "/x/a.tar", Tag: "redis:2"}, "", "redis:2-vfix"},
		{Ref{Transport: DockerArchive, Name: "/x/My Image_1.tar.gz"}, "", "my-image-1:latest-vfix"},
		{Ref{Transport: OCILayout, Name: "/x/lay", Tag: "2.8"}, "", "lay:2.8-vfix"},
		{Ref{Transport: OCILayout, Name: "/x/lay", Tag: "docker.io/library/redis:2"}, "", "docker.io/library/redis:2-vfix"},
		{Ref{Transport: OCIArchive, Name: "/x/ÜÜ.tar"}, "", "image:latest-vfix"},
	} {
		got, err := DefaultDest(context.Background(), &Source{Ref: c.ref}, c.tag, "-vfix", MediaOptions{})
		if err != nil || got.Name != c.want || got.Transport != Daemon {
			t.Errorf("%v, -t %q: got %+v, %v, want %s", c.ref, c.tag, got, err, c.want)
		}
	}
	_, err := DefaultDest(context.Background(), &Source{Ref: Ref{Transport: Daemon, Name: digest}}, "", "-vfix", MediaOptions{})
	wantErr(t, err, nil, "an image ID gives no name")
	noDaemon(t)
	_, err = DefaultDest(context.Background(), &Source{Ref: Ref{Transport: Registry, Name: "h:5000/a/redis:2"}}, "", "-vfix", MediaOptions{})
	wantErr(t, err, ErrNoDaemon, "none.sock")
	if h := hintOf(err); !strings.Contains(h, "-o oci-archive:redis-2-vfix.tar,") {
		t.Errorf("hint: %q", h)
	}
}

// A load that nobody ends is ended by the context.
func TestDaemonCancelled(t *testing.T) {
	d := newDaemon(t, tinyImage(t), "tiny:1")
	t.Setenv("DOCKER_HOST", "unix://"+d.sock)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Put(ctx, Ref{Transport: Daemon, Name: "tiny:1-vfix"}, Result{Image: tinyImage(t)}, MediaOptions{Progress: cancelAtStart{cancel: cancel}})
	wantErr(t, err, context.Canceled)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.has["tiny:1-vfix"] != nil && bytes.Contains(d.loaded, []byte(archiveManifest)) {
		t.Error("the whole image was loaded")
	}
}
