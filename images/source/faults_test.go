package source_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
)

// faults are what a registry does wrong, after armed is set.
type faults struct {
	armed    atomic.Bool
	cuts     atomic.Int64 // downloads of a blob that end after half of it
	uploads  atomic.Int64 // uploads that end early
	busy     atomic.Int64 // requests that are answered with 503
	noRanges bool
	pages    atomic.Int64 // requests for the rest of a blob that are answered with a page
	// change changes the answer to a GET of a layer.
	change  func(w http.ResponseWriter, body []byte)
	hang    string // requests for a path with this in it never get an answer
	got     atomic.Int64
	release chan struct{} // closed at the end of the test
}

// registry starts a registry on loopback that breaks as f says; nil: it does not.
func registry(t testing.TB, f *faults) (host string) {
	t.Helper()
	if f == nil {
		f = &faults{}
	}
	reg := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	f.release = make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		armed := f.armed.Load()
		blob := r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")
		switch {
		case !armed:
			reg.ServeHTTP(w, r)
			return
		case f.hang != "" && strings.Contains(r.URL.Path, f.hang):
			<-f.release
			return
		case f.busy.Add(-1) >= 0:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case r.Method == http.MethodPatch && f.uploads.Add(-1) >= 0:
			io.CopyN(io.Discard, r.Body, 1000)
			panic(http.ErrAbortHandler)
		case !blob:
			reg.ServeHTTP(w, r)
			return
		}
		if r.Header.Get("Range") != "" && f.pages.Add(-1) >= 0 {
			io.WriteString(w, "try again later")
			return
		}
		if f.noRanges {
			r.Header.Del("Range")
		}
		rec := httptest.NewRecorder()
		reg.ServeHTTP(rec, r)
		body := rec.Body.Bytes()
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		const small = 10_000 // a config
		if f.change != nil && len(body) > small {
			f.change(w, body)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(rec.Code)
		if len(body) > small && f.cuts.Add(-1) >= 0 {
			w.Write(body[:len(body)/2])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		f.got.Add(int64(len(body)))
		w.Write(body)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(f.release) }) // before Close, which waits for the handlers
	return strings.TrimPrefix(s.URL, "http://")
}

// bigImage has a layer of n random bytes.
func bigImage(t testing.TB, n int) v1.Image {
	t.Helper()
	b := make([]byte, n)
	rand.Read(b)
	return imageOf(t, "linux/amd64", tarOf(t, "a", string(b)))
}

// A registry that breaks gives the same image or one error that names the object; a half-written result never exists.
func TestRegistryBreaks(t *testing.T) {
	noEngine(t)
	img := bigImage(t, 3<<20)
	layer := must(must(img.Layers())(t)[0].Digest())(t)
	lie := func(f func([]byte) []byte) func(http.ResponseWriter, []byte) {
		return func(w http.ResponseWriter, b []byte) {
			b = f(bytes.Clone(b))
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			w.Write(b)
		}
	}
	for name, c := range map[string]struct {
		set  func(*faults)
		want string // in the error; "" for the same image
	}{
		"sound":               {func(*faults) {}, ""},
		"one cut":             {func(f *faults) { f.cuts.Store(1) }, ""},
		"three cuts":          {func(f *faults) { f.cuts.Store(3) }, ""},
		"cuts without ranges": {func(f *faults) { f.cuts.Store(2); f.noRanges = true }, ""},
		"a cut and a page":    {func(f *faults) { f.cuts.Store(1); f.pages.Store(1) }, ""},
		"always cut":          {func(f *faults) { f.cuts.Store(1 << 30); f.noRanges = true }, layer.Hex[:12]},
		"three 503":           {func(f *faults) { f.busy.Store(3) }, ""},
		"only 503":            {func(f *faults) { f.busy.Store(1 << 30) }, "503 Service Unavailable"},
		"wrong content":       {func(f *faults) { f.change = lie(func(b []byte) []byte { b[99] ^= 1; return b }) }, layer.String()},
		"short":               {func(f *faults) { f.change = lie(func(b []byte) []byte { return b[:len(b)-1] }) }, layer.String()},
		"long":                {func(f *faults) { f.change = lie(func(b []byte) []byte { return append(b, 0) }) }, layer.String()},
		"without an end": {func(f *faults) {
			f.change = func(w http.ResponseWriter, b []byte) {
				w.Header().Del("Content-Length")
				for {
					if _, err := w.Write(b); err != nil {
						return
					}
				}
			}
		}, layer.String()},
		"hangs":         {func(f *faults) { f.hang = "/v2/" }, "no progress"},
		"a blob hangs":  {func(f *faults) { f.hang = layer.Hex }, "no progress"},
		"stops halfway": {func(f *faults) { f.change = f.stopHalfway }, "no progress"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &faults{}
			host := registry(t, f)
			put(t, "docker://"+host+"/x:1", source.Result{Image: img}, fast)
			c.set(f)
			f.armed.Store(true)
			at := t.TempDir()
			o := source.Options{Stall: 200 * time.Millisecond, Pause: time.Millisecond}
			for _, dest := range []string{"oci:" + at + "/lay:x", "oci-archive:" + at + "/x.tar:x"} {
				src, err := source.Open(t.Context(), "docker://"+host+"/x:1", o)
				if err == nil {
					_, err = source.Put(t.Context(), must(source.ParseRef(dest))(t), source.Result{Image: src.Image}, o)
					src.Close()
				}
				if c.want != "" {
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%s: got %v, want %q", dest, err, c.want)
					} else if n := strings.Count(err.Error(), host); n > 1 {
						t.Errorf("%s: the registry is named %d times: %v", dest, n, err)
					}
					left(t, at)
					continue
				}
				if err != nil {
					t.Fatalf("%s: %v", dest, err)
				}
				got := open(t, dest, fast)
				if must(got.Image.Digest())(t) != must(img.Digest())(t) {
					t.Errorf("%s: got another image", dest)
				}
				if err := validate.Image(got.Image); err != nil {
					t.Errorf("%s: %v", dest, err)
				}
			}
		})
	}
}

// stopHalfway sends half of a blob and then nothing.
func (f *faults) stopHalfway(w http.ResponseWriter, b []byte) {
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.Write(b[:len(b)/2])
	w.(http.Flusher).Flush()
	<-f.release
}

// A layer that is read twice is fetched once.
func TestKeep(t *testing.T) {
	noEngine(t)
	img := bigImage(t, 100_000)
	f := &faults{}
	host := registry(t, f)
	put(t, "docker://"+host+"/x:1", source.Result{Image: img}, fast)
	f.armed.Store(true)
	size := must(must(img.Layers())(t)[0].Size())(t)
	for _, keep := range []bool{false, true} {
		f.got.Store(0)
		src := open(t, "docker://"+host+"/x:1", fast)
		if keep {
			src.Keep()
		}
		for range 2 {
			rc := must(must(src.Image.Layers())(t)[0].Compressed())(t)
			if _, err := io.Copy(io.Discard, rc); err != nil {
				t.Fatal(err)
			}
			rc.Close()
		}
		if twice := f.got.Load() >= 2*size; twice == keep {
			t.Errorf("keep %v: %d bytes were fetched of a layer of %d", keep, f.got.Load(), size)
		}
	}
}

// A cut upload is sent again; one that is always cut leaves the old image under the tag.
func TestUploadBreaks(t *testing.T) {
	noEngine(t)
	old, img := bigImage(t, 1000), bigImage(t, 1<<20)
	for cuts, ok := range map[int64]bool{0: true, 1: true, 1 << 30: false} {
		f := &faults{}
		host := registry(t, f)
		put(t, "docker://"+host+"/x:1", source.Result{Image: old}, fast)
		f.uploads.Store(cuts)
		f.armed.Store(true)
		_, err := source.Put(t.Context(), source.Ref{Transport: source.Registry, Name: host + "/x:1"}, source.Result{Image: img}, fast)
		if (err == nil) != ok {
			t.Errorf("%d cuts: got %v", cuts, err)
		}
		want := img
		if !ok {
			want = old
			if n := strings.Count(fmt.Sprint(err), host); n != 1 || !strings.Contains(fmt.Sprint(err), "x:1: ") {
				t.Errorf("%d cuts: got %v", cuts, err)
			}
		}
		if got := open(t, "docker://"+host+"/x:1", fast); diffIDs(t, got.Image) != diffIDs(t, want) {
			t.Errorf("%d cuts: another image has the tag", cuts)
		}
	}
}

// A layer that another repository of the registry has is mounted, not sent, also under another media type.
func TestMount(t *testing.T) {
	noEngine(t)
	img := bigImage(t, 1<<20)
	reg := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	var mounted atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case r.Method == http.MethodHead && strings.HasPrefix(r.URL.Path, "/v2/y") && strings.Contains(r.URL.Path, "/blobs/"): // ggcr's repositories share their blobs
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodPost && q.Get("mount") != "" && q.Get("from") == "x":
			mounted.Add(1)
			w.WriteHeader(http.StatusCreated)
		default:
			reg.ServeHTTP(w, r)
		}
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	put(t, "docker://"+host+"/x:1", source.Result{Image: img}, fast)
	src := open(t, "docker://"+host+"/x:1", fast)
	layers := must(src.Image.Layers())(t)
	layers[0] = blob.AsType(layers[0], types.OCILayer)
	for n, l := range [][]v1.Layer{must(src.Image.Layers())(t), layers} {
		edited := must(source.EditedImage(must(src.Image.RawManifest())(t), must(src.Image.RawConfigFile())(t), l))(t)
		put(t, fmt.Sprintf("docker://%s/y%d:1", host, n), source.Result{Image: edited, Source: src.Ref}, fast)
		if got := mounted.Load(); got != int64(n+1) {
			t.Errorf("%d layers were mounted, want %d", got, n+1)
		}
	}
}

// A missing image and a missing registry have errors that say what to do.
func TestRegistryErrors(t *testing.T) {
	noEngine(t)
	host := registry(t, nil)
	_, err := source.Open(t.Context(), "docker://"+host+"/none:1", fast)
	if !errors.Is(err, hinterr.ErrNotFound) || !strings.Contains(err.Error(), "none:1: not found (404") {
		t.Errorf("no image: got %v", err)
	}
	_, err = source.Open(t.Context(), "docker://127.0.0.1:1/x", fast)
	if err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Count(err.Error(), "127.0.0.1:1") != 1 {
		t.Errorf("no registry: got %v", err)
	}
	closing := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			panic(http.ErrAbortHandler)
		}
	}))
	defer closing.Close()
	_, err = source.Open(t.Context(), "docker://"+strings.TrimPrefix(closing.URL, "http://")+"/x:1", fast)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), ": x:1: the connection broke: ") {
		t.Errorf("a registry that closes each connection: got %v", err)
	}
	public := fast
	if _, err = source.Open(t.Context(), "docker://10.255.255.1:1/x", public); err == nil {
		t.Error("a registry that is not there was read")
	}
	at := filepath.Join(t.TempDir(), "out")
	if _, err := source.Put(t.Context(), source.Ref{Transport: source.OCIArchive, Name: at + "/no/x.tar"}, source.Result{Image: bigImage(t, 10)}, fast); !strings.Contains(hinterr.HintOf(err), "mkdir -p") {
		t.Errorf("no directory: got %v", err)
	}
}
