package registry_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/tests/imagetest"
)

// noiseImage returns an image with one layer of about size bytes that gzip cannot compress.
func noiseImage(t testing.TB, size int) v1.Image {
	t.Helper()
	noise := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(size >> 16)})
	r.Read(noise)
	plain := imagetest.TarOf(t, "noise", string(noise))
	diffID, _, err := v1.SHA256(strings.NewReader(string(plain)))
	if err != nil {
		t.Fatal(err)
	}
	img := imagetest.Must[v1.Image](t)(mutate.AppendLayers(empty.Image, imagetest.BlobLayer{Layer: static.NewLayer(imagetest.GzipOf(t, plain), types.DockerLayer), ID: diffID}))
	cf := imagetest.Must[*v1.ConfigFile](t)(img.ConfigFile()).DeepCopy()
	cf.OS, cf.Architecture = "linux", "amd64"
	return imagetest.Must[v1.Image](t)(mutate.ConfigFile(img, cf))
}

// uploader is a registry's uploads with faults that a test chooses: it keeps the data from before a broken
// connection, or not.
type uploader struct {
	keeps, reports bool
	silent         bool   // the answer to how much is there has no address
	cuts           int    // this many PATCHes are cut off in the middle
	mute           int    // this many PUTs are done and not answered
	says           string // the range that it has, instead of the true one
	status         int    // of the answer with the range, instead of 204

	mu     sync.Mutex
	begun  int
	data   map[string][]byte // by the number of the upload
	blobs  map[string][]byte
	ranges []string // Content-Range of the PATCHes
}

func (u *uploader) serve(w http.ResponseWriter, r *http.Request) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, isUpload := strings.CutPrefix(r.URL.Path, "/v2/b/noise/blobs/uploads/")
	if digest, ok := strings.CutPrefix(r.URL.Path, "/v2/b/noise/blobs/"); !isUpload && ok && r.Method == "HEAD" {
		if u.blobs[digest] == nil {
			w.WriteHeader(http.StatusNotFound)
		}
		return true
	}
	if !isUpload {
		if r.Method == "PUT" { // the manifest, which is all that this registry serves
			digest, _, _ := v1.SHA256(r.Body)
			w.Header().Set("Docker-Content-Digest", digest.String())
			w.WriteHeader(http.StatusCreated)
			return true
		}
		return false
	}
	if r.Method != "POST" && u.data[at] == nil {
		w.WriteHeader(http.StatusNotFound)
		return true
	}
	if !u.silent || r.Method != "GET" {
		w.Header().Set("Location", r.URL.Path)
	}
	if (r.Method == "PATCH" || r.Method == "PUT") && r.Header.Get("Content-Type") != "application/octet-stream" {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return true
	}
	switch r.Method {
	case "POST":
		u.begun++
		name := fmt.Sprint(u.begun)
		u.data[name] = []byte{}
		w.Header().Set("Location", "/v2/b/noise/blobs/uploads/"+name)
		w.WriteHeader(http.StatusAccepted)
	case "PATCH":
		u.patch(w, r, at)
	case "GET":
		if u.reports {
			w.Header().Set("Range", cmp.Or(u.says, fmt.Sprintf("0-%d", max(0, len(u.data[at])-1))))
		}
		w.WriteHeader(cmp.Or(u.status, http.StatusNoContent))
	case "PUT":
		last, _ := io.ReadAll(r.Body)
		u.data[at] = append(u.data[at], last...)
		digest, _, _ := v1.SHA256(strings.NewReader(string(u.data[at])))
		if digest.String() != r.URL.Query().Get("digest") {
			w.WriteHeader(http.StatusBadRequest)
			return true
		}
		u.blobs[digest.String()] = u.data[at]
		delete(u.data, at)
		if u.mute--; u.mute >= 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
	}
	return true
}

func (u *uploader) patch(w http.ResponseWriter, r *http.Request, at string) {
	want := r.Header.Get("Content-Range")
	u.ranges = append(u.ranges, want)
	if from, _, _ := strings.Cut(want, "-"); want != "" && from != fmt.Sprint(len(u.data[at])) {
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	if u.cuts--; u.cuts >= 0 {
		half, _ := io.ReadAll(io.LimitReader(r.Body, r.ContentLength/2))
		if u.keeps {
			u.data[at] = append(u.data[at], half...)
		}
		panic(http.ErrAbortHandler)
	}
	data, _ := io.ReadAll(r.Body)
	u.data[at] = append(u.data[at], data...)
	w.WriteHeader(http.StatusAccepted)
}

// shownProgress adds up the progress of one piece of work.
type shownProgress struct {
	progress.Silent
	size, sum  atomic.Int64
	done, back atomic.Bool
}

func (s *shownProgress) Start(kind, _ string, size int64) progress.Task {
	if kind == "push" {
		s.size.Store(size)
		return s
	}
	return progress.Silent{}
}
func (s *shownProgress) Add(n int64) {
	s.sum.Add(n)
	if n < 0 {
		s.back.Store(true)
	}
}
func (s *shownProgress) Done() { s.done.Store(true) }

func TestUploadResumes(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	img := noiseImage(t, 2<<20)
	m := imagetest.Must[*v1.Manifest](t)(img.Manifest())
	digest := m.Layers[0].Digest.String()
	for _, c := range []struct {
		name    string
		u       *uploader
		begun   int // uploads, that of the config included
		resumed int // PATCHes that began in the middle
		want    string
	}{
		{name: "nothing breaks", u: &uploader{}, begun: 2},
		{name: "goes on", u: &uploader{keeps: true, reports: true, cuts: 3}, begun: 2, resumed: 3},
		{name: "goes on, at the same address", u: &uploader{keeps: true, reports: true, silent: true, cuts: 2}, begun: 2, resumed: 2},
		{name: "kept and not reported", u: &uploader{keeps: true, cuts: 2}, begun: 4},
		{name: "begun again", u: &uploader{reports: true, cuts: 2}, begun: 4},
		{name: "done and not reported", u: &uploader{mute: 1}, begun: 2},
		{name: "more than all", u: &uploader{keeps: true, reports: true, says: "0-99999999", cuts: 1}, begun: 3},
		{name: "not a range", u: &uploader{keeps: true, reports: true, says: "1048576", cuts: 1}, begun: 3},
		{name: "another answer", u: &uploader{keeps: true, reports: true, status: 202, cuts: 1}, begun: 3},
		{name: "both done and not reported", u: &uploader{mute: 2}, begun: 2},
		{name: "never", u: &uploader{cuts: 1000}, begun: 4, want: "registry " + f.Host},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := c.u
			u.data, u.blobs = map[string][]byte{}, map[string][]byte{}
			f.Reset(u.serve)
			o, shown := imagetest.Fast, &shownProgress{}
			o.Progress = shown
			_, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/b/noise:1"}, media.Result{Image: img}, o)
			if size := m.Config.Size + m.Layers[0].Size; shown.size.Load() != size || !shown.done.Load() || shown.back.Load() || c.want == "" && shown.sum.Load() != size {
				t.Errorf("progress %d of %d, ended: %v, back: %v; want %d", shown.sum.Load(), shown.size.Load(), shown.done.Load(), shown.back.Load(), size)
			}
			if c.want != "" {
				imagetest.WantErr(t, err, nil, c.want)
			} else if err != nil {
				t.Fatal(err)
			} else if u.blobs[digest] == nil {
				t.Error("the layer is not there")
			}
			resumed := 0
			for _, r := range u.ranges {
				if r != "" {
					resumed++
				}
			}
			if u.begun != c.begun || resumed != c.resumed {
				t.Errorf("%d uploads, %d resumed, want %d and %d: %q", u.begun, resumed, c.begun, c.resumed, u.ranges)
			}
		})
	}
}

// A layer that cannot be read, or does not match its digest, is not a reason to try again.
func TestUploadOfDamage(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := noiseImage(t, 1<<20)
	// Each has a repository of its own: a request that Put has given up may come in later.
	for name, open := range map[string]func() (io.ReadCloser, error){
		"unreadable": func() (io.ReadCloser, error) { return nil, errors.New("the disk is gone") },
		"cut-off":    func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil },
		"other": func() (io.ReadCloser, error) {
			return io.NopCloser(io.LimitReader(rand.NewChaCha8([32]byte{}), imagetest.Must[int64](t)(imagetest.Must[[]v1.Layer](t)(img.Layers())[0].Size()))), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f.Reset(nil)
			bad := &damagedImage{img, open}
			_, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/bad/" + name + ":1"}, media.Result{Image: bad}, imagetest.Fast)
			imagetest.WantErr(t, err, nil, "registry "+f.Host)
			if n := f.Count("PATCH /v2/bad/" + name + "/"); n > 2 {
				t.Errorf("%d requests", n)
			}
			if f.Count("PUT /v2/bad/"+name+"/manifests/") != 0 {
				t.Error("the manifest was pushed")
			}
		})
	}
}

// damagedImage is an image whose layers have other bytes.
type damagedImage struct {
	v1.Image
	open func() (io.ReadCloser, error)
}

func (d *damagedImage) Layers() ([]v1.Layer, error) {
	ls, err := d.Image.Layers()
	for n := range ls {
		ls[n] = damagedLayer{ls[n], d.open}
	}
	return ls, err
}

type damagedLayer struct {
	v1.Layer
	open func() (io.ReadCloser, error)
}

func (d damagedLayer) Compressed() (io.ReadCloser, error) { return d.open() }

// A blob in one repository of a registry is mounted into the next, whatever its origin; two concurrent pushes send
// it once.
func TestPushOnce(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	img := noiseImage(t, 1<<20)
	digest := imagetest.Must[v1.Hash](t)(imagetest.Must[[]v1.Layer](t)(img.Layers())[0].Digest()).String()
	var mu sync.Mutex
	has := map[string]bool{} // repositories with the layer
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		repo := strings.Split(strings.TrimPrefix(r.URL.Path, "/v2/"), "/")[0]
		switch q := r.URL.Query(); {
		case r.Method == "HEAD" && strings.HasSuffix(r.URL.Path, digest):
			if !has[repo] {
				w.WriteHeader(http.StatusNotFound)
			}
			return true
		case r.Method == "POST" && q.Get("mount") == digest && has[q.Get("from")]:
			has[repo] = true
			w.WriteHeader(http.StatusCreated)
			return true
		case r.Method == "PUT" && q.Get("digest") == digest:
			has[repo] = true
		}
		return false
	})
	o := imagetest.Fast.WithDefaults()
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			if _, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: fmt.Sprintf("%s/r%d:1", f.Host, n)}, media.Result{Image: img}, o); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	sent := 0
	for _, s := range f.Seen {
		if strings.HasPrefix(s, "PUT ") && strings.Contains(s, "digest="+strings.ReplaceAll(digest, ":", "%3A")) {
			sent++
		}
	}
	if len(has) != 6 || sent != 1 {
		t.Errorf("in %d repositories, sent %d times", len(has), sent)
	}
	f.Reset(nil)
	if _, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/r0:2"}, media.Result{Image: img}, o); err != nil {
		t.Error(err)
	}
	if n := f.Count("/blobs/"); n != 0 {
		t.Errorf("%d requests about blobs that are known to be there: %q", n, f.Seen)
	}
}

// Each request about a blob is necessary: a blob in another repository of the registry is mounted without a query,
// and a small blob that is not a layer is sent with the request that ends its upload.
func TestPushAsksLittle(t *testing.T) {
	imagetest.CleanTemp(t)
	img := noiseImage(t, 1<<20)
	layer := imagetest.Must[v1.Hash](t)(imagetest.Must[[]v1.Layer](t)(img.Layers())[0].Digest())
	config := imagetest.Must[v1.Hash](t)(img.ConfigName())
	for _, c := range []struct {
		name string
		// mounts says whether the registry mounts, there whether the second repository has the layer already, and
		// stubborn whether it takes no blob that it has.
		mounts, there, stubborn bool
		layer, config           string // the requests for the second repository
	}{
		{name: "mounted", mounts: true, layer: "POST", config: "POST"},
		{name: "mounted in place", mounts: true, there: true, layer: "POST", config: "POST"},
		{name: "no mounts", layer: "POST HEAD PATCH PUT", config: "POST PUT"},
		{name: "no mounts, in place", there: true, layer: "POST HEAD", config: "POST PUT"},
		{name: "no mounts, and takes nothing again", there: true, stubborn: true, layer: "POST HEAD", config: "POST PUT HEAD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := imagetest.NewRegistry(t)
			o := imagetest.Fast.WithDefaults()
			push := func(repo string) {
				shown := &shownProgress{}
				o.Progress = shown
				defer func() {
					if size := shown.size.Load(); shown.sum.Load() != size {
						t.Errorf("progress %d of %d", shown.sum.Load(), size)
					}
				}()
				if _, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/" + repo + ":1"}, media.Result{Image: img}, o); err != nil {
					t.Fatal(err)
				}
			}
			push("first")
			var mu sync.Mutex
			methods, uploads := map[v1.Hash][]string{}, 0
			of := map[string]v1.Hash{} // of an upload
			f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				at := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				h, err := v1.NewHash(at)
				if err != nil {
					h = of[at]
				}
				if mount := r.URL.Query().Get("mount"); mount != "" {
					h, _ = v1.NewHash(mount)
				}
				if !strings.Contains(r.URL.Path, "/blobs/") {
					return false
				}
				methods[h] = append(methods[h], r.Method)
				body, _ := io.ReadAll(r.Body)
				switch {
				case r.Method == "HEAD" && !c.there:
					w.WriteHeader(http.StatusNotFound)
				case r.Method == "HEAD":
				case r.Method == "POST" && c.mounts:
					w.WriteHeader(http.StatusCreated)
				case r.Method == "PUT" && c.stubborn:
					w.WriteHeader(http.StatusConflict)
				case r.Method == "PUT":
					if h == config && len(body) == 0 {
						t.Error("a small blob is not sent with the request that ends its upload")
					}
					w.WriteHeader(http.StatusCreated)
				default:
					if r.Method == "POST" {
						uploads++
						at = fmt.Sprint(uploads)
						of[at] = h
					}
					w.Header().Set("Location", "/v2/second/blobs/uploads/"+at)
					w.WriteHeader(http.StatusAccepted)
				}
				return true
			})
			push("second")
			if n := f.Count("GET /v2/"); n != 0 {
				t.Errorf("%d requests for the login that is needed", n)
			}
			if got := strings.Join(methods[layer], " "); got != c.layer {
				t.Errorf("layer: got %s, want %s", got, c.layer)
			}
			if got := strings.Join(methods[config], " "); got != c.config {
				t.Errorf("config: got %s, want %s", got, c.config)
			}
		})
	}
}

// Ending the command ends an upload at once, with the command's own reason.
func TestUploadCancelled(t *testing.T) {
	f := imagetest.NewRegistry(t)
	hang := hanging(t)
	why := errors.New("stopped by hand")
	ctx, cancel := context.WithCancelCause(context.Background())
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "PATCH" {
			return false
		}
		cancel(why)
		hang()
		return true
	})
	o := imagetest.Fast
	o.Stall = time.Hour
	_, err := sources.Put(ctx, media.Ref{Transport: media.Registry, Name: f.Host + "/b/noise:1"}, media.Result{Image: noiseImage(t, 1<<20)}, o)
	imagetest.WantErr(t, err, why)
}
