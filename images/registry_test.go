package images

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// fakeRegistry is a registry on loopback whose answers a test may spoil.
type fakeRegistry struct {
	host string
	// spoil, where it is not nil, sees each request first and says whether it answered.
	spoil func(http.ResponseWriter, *http.Request) bool
	mu    sync.Mutex
	seen  []string // METHOD PATH?QUERY
}

func newRegistry(t *testing.T) *fakeRegistry {
	t.Helper()
	return newRegistryWith(t, false)
}

// newRegistryWith makes one that has the referrers API, or has it not.
func newRegistryWith(t *testing.T, referrers bool) *fakeRegistry {
	t.Helper()
	f := &fakeRegistry{}
	h := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(referrers))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.seen = append(f.seen, r.Method+" "+r.URL.RequestURI())
		spoil := f.spoil
		f.mu.Unlock()
		if spoil == nil || !spoil(w, r) {
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	f.host = strings.TrimPrefix(s.URL, "http://")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_AUTH_FILE", t.TempDir()+"/none")
	return f
}

// fast is the usual number of tries without the usual pauses.
var fast = MediaOptions{retry: retryPolicy{tries: 3, first: time.Millisecond, most: time.Second}}

func (f *fakeRegistry) count(has string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.seen {
		if strings.Contains(s, has) {
			n++
		}
	}
	return n
}

func (f *fakeRegistry) reset(spoil func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen, f.spoil = nil, spoil
}

func TestRegistryImage(t *testing.T) {
	cleanTemp(t)
	noDaemon(t)
	f := newRegistry(t)
	img := tinyImage(t)
	digest := must[v1.Hash](t)(img.Digest()).String()
	got := put(t, "docker://"+f.host+"/a/tiny:1", Result{Image: img})
	if want := f.host + "/a/tiny:1@" + digest; got.Reference != want || got.Digest != digest {
		t.Errorf("got %+v, want %s", got, want)
	}
	for _, source := range []string{"docker://" + f.host + "/a/tiny:1", "docker://" + got.Reference, f.host + "/a/tiny:1"} {
		src := open(t, source)
		if src.Digest != digest || src.Ref.Transport != Registry || src.Ref.Guessed {
			t.Errorf("%s: got %+v, digest %s", source, src.Ref, src.Digest)
		}
		sameImage(t, src.Image, img)
	}
	if s := put(t, "docker://"+f.host+"/a/tiny", Result{Image: img}); s.Reference != f.host+"/a/tiny:latest@"+digest {
		t.Errorf("without a tag: got %s", s.Reference)
	}
	_, err := Put(context.Background(), Ref{Transport: Registry, Name: got.Reference}, Result{Image: img}, fast)
	wantErr(t, err, nil, "is not the name of an image")
}

// Between repositories of one registry the base layers are mounted and not sent.
func TestRegistryMount(t *testing.T) {
	f := newRegistry(t)
	put(t, "docker://"+f.host+"/a/tiny:1", Result{Image: tinyImage(t)})
	src := open(t, "docker://"+f.host+"/a/tiny:1")
	// go-containerregistry's registry has one set of blobs for all repositories; this one
	// has none in b, and mounts.
	f.reset(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == "HEAD" && strings.HasPrefix(r.URL.Path, "/v2/b/tiny/blobs/"):
			w.WriteHeader(http.StatusNotFound)
		case r.Method == "POST" && r.URL.Query().Has("mount"):
			w.WriteHeader(http.StatusCreated)
		default:
			return false
		}
		return true
	})
	wrapped := &convertedImage{Image: src.Image, raw: must[[]byte](t)(src.Image.RawManifest()),
		parsed: must[*v1.Manifest](t)(src.Image.Manifest()), layers: must[[]v1.Layer](t)(src.Image.Layers())}
	put(t, "docker://"+f.host+"/b/tiny:1", Result{Image: wrapped})
	if f.count("mount=") != 2 || f.count("from=a%2Ftiny") != 2 || f.count("PATCH ") > 1 || f.count("GET /v2/a/tiny/blobs") > 1 {
		t.Errorf("requests: %q", f.seen)
	}
}

func TestRegistryIndex(t *testing.T) {
	f := newRegistry(t)
	idx := tinyIndex(t)
	want := must[v1.Hash](t)(idx.Digest()).String()
	if s := put(t, "docker://"+f.host+"/a/multi:1", Result{Index: idx}); s.Digest != want {
		t.Errorf("got %s, want %s", s.Digest, want)
	}
	src := open(t, "docker://"+f.host+"/a/multi:1")
	if src.Digest != want || src.Entry.Annotations["kept"] != "yes" {
		t.Errorf("got %s, entry %+v", src.Digest, src.Entry)
	}
	fresh := platformImage(t, "amd64", "derived")
	ridx := ReplaceInIndex(src.Index, src.Entry, fresh)
	n := &notes{}
	o := fast
	o.Progress = n
	if _, err := Put(context.Background(), Ref{Transport: Registry, Name: f.host + "/b/multi:2"}, Result{Image: fresh, Index: ridx}, o); err != nil {
		t.Fatal(err)
	}
	if len(n.text) != 1 || !strings.Contains(n.text[0], "attestation manifest sha256:") {
		t.Errorf("notes: %q", n.text)
	}
	out := open(t, "docker://"+f.host+"/b/multi:2")
	sameImage(t, out.Image, fresh)
	if err := validate.Index(out.Index); err != nil {
		t.Error(err)
	}
	raw := string(must[[]byte](t)(out.Index.RawManifest()))
	if !strings.Contains(raw, `"variant":   "v8", "x-unknown":[1, 2]`) {
		t.Errorf("the other platform's entry was rewritten: %s", raw)
	}
}

// What a registry answers ends in an error that names it and the repository.
func TestRegistryAnswers(t *testing.T) {
	cleanTemp(t)
	f := newRegistry(t)
	img := tinyImage(t)
	put(t, "docker://"+f.host+"/a/tiny:1", Result{Image: img})
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(code); return true }
	}
	drop := func(w http.ResponseWriter, r *http.Request) bool {
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		spoil func(http.ResponseWriter, *http.Request) bool
		kind  error
		says  string
		tries int // at least
	}{
		"401":  {status(401), ErrUnauthorized, "401 Unauthorized", 1},
		"403":  {status(403), ErrUnauthorized, "403 Forbidden", 1},
		"404":  {status(404), ErrNotFound, "404 Not Found", 1},
		"429":  {status(429), nil, "too many requests (429", 3},
		"500":  {status(500), nil, "500 Internal Server Error", 3},
		"drop": {drop, nil, "the connection broke", 3},
	} {
		t.Run(name, func(t *testing.T) {
			f.reset(c.spoil)
			_, err := Open(context.Background(), "docker://"+f.host+"/a/tiny:1", fast)
			wantErr(t, err, c.kind, "registry "+f.host, "repository a/tiny", c.says)
			if strings.Contains(fmt.Sprint(err), "http://") {
				t.Errorf("a URL in %q", err)
			}
			if n := f.count(" /v2/"); n < c.tries {
				t.Errorf("got %d tries, want %d", n, c.tries)
			}
			_, err = Put(context.Background(), Ref{Transport: Registry, Name: f.host + "/b/tiny:1"}, Result{Image: img}, fast)
			wantErr(t, err, nil, "registry "+f.host, "repository b/tiny")
		})
	}
	f.reset(nil)
	sameImage(t, open(t, "docker://"+f.host+"/a/tiny:1").Image, img) // nothing was wrong with it
	wantErr(t, openErr(t, "docker://"+f.host+"/a/tiny:2"), ErrNotFound, "no such image")
}

// A layer whose connection breaks, or whose content is another one, is an error that names
// the host or the digest, and no output exists afterwards.
func TestRegistryLayer(t *testing.T) {
	cleanTemp(t)
	f := newRegistry(t)
	img := tinyImage(t)
	put(t, "docker://"+f.host+"/a/tiny:1", Result{Image: img})
	l := must[[]v1.Layer](t)(img.Layers())[0]
	digest := must[v1.Hash](t)(l.Digest())
	size := must[int64](t)(l.Size())
	dir := t.TempDir()
	for _, c := range []struct {
		name, says string
		body       func(w http.ResponseWriter)
	}{
		{"cut", "registry " + f.host, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			w.Write([]byte{0x1f, 0x8b, 0x08})
		}},
		{"other", digest.Hex, func(w http.ResponseWriter) { w.Write(make([]byte, size)) }},
		{"long", "layer", func(w http.ResponseWriter) { w.Write(make([]byte, size+1)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.reset(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != "GET" || !strings.HasSuffix(r.URL.Path, digest.String()) {
					return false
				}
				c.body(w)
				return true
			})
			src := must[*Source](t)(Open(context.Background(), "docker://"+f.host+"/a/tiny:1", fast))
			for _, dest := range []string{"oci:" + dir + "/x", "docker-archive:" + dir + "/x.tar"} {
				_, err := Put(context.Background(), must[Ref](t)(ParseRef(dest)), Result{Image: src.Image}, fast)
				if c.name != "long" {
					wantErr(t, err, nil, c.says)
				} else if err == nil {
					t.Error("no error")
				}
			}
			wantEmpty(t, dir)
		})
	}
}

// Credentials come from docker's config, and no message has them in it.
func TestRegistryLogin(t *testing.T) {
	f := newRegistry(t)
	const secret = "s3cretpw"
	f.reset(func(w http.ResponseWriter, r *http.Request) bool {
		if _, pw, _ := r.BasicAuth(); pw == secret && !strings.Contains(r.URL.Path, "/closed/") {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	r, to := Result{Image: tinyImage(t)}, Ref{Transport: Registry, Name: f.host + "/open/tiny:1"}
	_, err := Put(context.Background(), to, r, fast)
	wantErr(t, err, ErrUnauthorized, f.host)
	if h := hintOf(err); h != "docker login "+f.host {
		t.Errorf("hint: %q", h)
	}
	auth := base64.StdEncoding.EncodeToString([]byte("u:" + secret))
	write(t, os.Getenv("DOCKER_CONFIG")+"/config.json", []byte(`{"auths":{"`+f.host+`":{"auth":"`+auth+`"}}}`))
	if _, err := Put(context.Background(), to, r, fast); err != nil {
		t.Error(err)
	}
	to.Name = f.host + "/closed/tiny:1"
	_, err = Put(context.Background(), to, r, fast)
	wantErr(t, err, ErrUnauthorized, "repository closed/tiny")
	if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), auth) {
		t.Errorf("the password is in %q", err)
	}
}

func TestRegistryCancelled(t *testing.T) {
	f := newRegistry(t)
	ctx, cancel := context.WithCancel(context.Background())
	f.reset(func(w http.ResponseWriter, r *http.Request) bool {
		cancel()
		<-r.Context().Done()
		return true
	})
	_, err := Open(ctx, "docker://"+f.host+"/a/tiny:1", fast)
	wantErr(t, err, context.Canceled)
}

// A name that is nothing anywhere says all that was tried.
func TestOpenNameErrors(t *testing.T) {
	noDaemon(t)
	f := newRegistry(t)
	err := openErr(t, f.host+"/no/such:1")
	wantErr(t, err, ErrNotFound, "neither a file nor an image", "none.sock", "registry "+f.host, "no such image")
	wantErr(t, openErr(t, "docker-daemon:redis"), ErrNoDaemon, "none.sock")
	wantErr(t, openErr(t, "docker://UPPER"), nil, "is not the name of an image")
}
