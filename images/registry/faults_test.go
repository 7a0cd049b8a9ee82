package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// errFault is an error that no other try is made after.
var errFault = errors.New("the wire is cut")

// A fault is what happens to one request instead of its answer.
type fault struct {
	name  string
	spoil func(next http.RoundTripper, req *http.Request) (*http.Response, error)
	// harmless says whether the command succeeds although this happened to the request.
	harmless func(req *http.Request) bool
}

func failed(err error) func(http.RoundTripper, *http.Request) (*http.Response, error) {
	return func(_ http.RoundTripper, req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
}

// answered answers with a status, and body, after the request was done or instead of that.
func answered(status int, body func(old io.ReadCloser) io.ReadCloser) func(http.RoundTripper, *http.Request) (*http.Response, error) {
	return func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
		if status != 0 {
			if req.Body != nil {
				req.Body.Close()
			}
			return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: req,
				Body: io.NopCloser(strings.NewReader("no"))}, nil
		}
		resp, err := next.RoundTrip(req)
		if err == nil {
			resp.Body = body(resp.Body)
		}
		return resp, err
	}
}

// broken is a body that ends in an error, after n bytes.
type broken struct {
	io.Reader
	io.Closer
}

func brokenAfter(n int64, err error) func(io.ReadCloser) io.ReadCloser {
	return func(old io.ReadCloser) io.ReadCloser {
		return broken{io.MultiReader(io.LimitReader(old, n), failing{err}), old}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// lost does the request and loses the answer.
func lost(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := next.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
		err = io.EOF
	}
	return nil, err
}

func always(*http.Request) bool { return true }

// eachFault runs act on a new registry again and again, each time with another fault: of each kind, the first request
// of act fails, then the second, until there are no more. act returns a check of what it made.
func eachFault(t *testing.T, faults []fault, act func(t *testing.T, host string, o media.Options) (check func(), err error)) {
	t.Helper()
	for _, f := range faults {
		spoiled := 0
		for last := false; !last; spoiled++ {
			t.Run(fmt.Sprintf("%s %d", f.name, spoiled+1), func(t *testing.T) {
				var requests atomic.Int64
				var at atomic.Pointer[http.Request]
				wire := &http.Transport{}
				defer wire.CloseIdleConnections()
				o := imagetest.Fast
				o.Net = registry.NewNetwork(registry.Options{Stall: registry.DefaultStall, Retry: o.Retry})
				o.Net.Answer(imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
					if strings.Contains(req.URL.Path, "/manifests/") && req.Method != "PUT" && req.Header.Get("Accept") == "" {
						t.Errorf("%s %s: of no type", req.Method, req.URL) // a real registry may convert it
					}
					if requests.Add(1) == int64(spoiled+1) {
						at.Store(req)
						return f.spoil(wire, req)
					}
					return wire.RoundTrip(req)
				}))
				host := imagetest.NewRegistry(t).Host
				check, err := act(t, host, o.WithDefaults())
				if err == nil {
					check()
				}
				req := at.Load()
				last = req == nil
				switch {
				case last && err != nil:
					t.Errorf("without a fault: %v", err)
				case last:
				case (err == nil) != f.harmless(req):
					t.Errorf("%s %s: %v", req.Method, req.URL.RequestURI(), err)
				case err != nil && !strings.Contains(err.Error(), host):
					t.Errorf("%s %s: %v: names no registry", req.Method, req.URL.RequestURI(), err)
				}
			})
			if t.Failed() {
				break
			}
		}
		if spoiled < 8 {
			t.Errorf("%s: only %d requests failed", f.name, spoiled)
		}
	}
}

// mixedIndex has an image, an index of another one, and an entry that is neither.
func mixedIndex(t *testing.T) v1.ImageIndex {
	inner := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: imagetest.PlatformImage(t, "arm64", "two")})
	return mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: noiseImage(t, 100<<10), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: inner},
		mutate.IndexAddendum{Add: static.NewLayer([]byte("a note"), types.MediaType("text/plain"))})
}

// whole fails unless a registry has all of an index: it reads each part by its digest.
func whole(t *testing.T, host, repo, ref string, want []byte) {
	t.Helper()
	get := func(what string) []byte {
		resp, err := http.Get("http://" + host + "/v2/" + repo + "/" + what)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data := imagetest.Must[[]byte](t)(io.ReadAll(resp.Body))
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %s is not there: %s", repo, what, resp.Status)
		}
		return data
	}
	if got := get("manifests/" + ref); !bytes.Equal(got, want) {
		t.Fatalf("%s: got %s, want %s", repo, got, want)
	}
	parts := 0
	var follow func(raw []byte)
	follow = func(raw []byte) {
		var m struct {
			Manifests, Layers []v1.Descriptor
			Config            *v1.Descriptor
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		if m.Config != nil {
			m.Layers = append(m.Layers, *m.Config)
		}
		for _, d := range append(m.Manifests, m.Layers...) {
			isManifest := d.MediaType.IsImage() || d.MediaType.IsIndex()
			data := get(map[bool]string{true: "manifests/", false: "blobs/"}[isManifest] + d.Digest.String())
			if h, _, _ := v1.SHA256(bytes.NewReader(data)); h != d.Digest {
				t.Fatalf("%s: %v is %v", repo, d.Digest, h)
			}
			if parts++; isManifest {
				follow(data)
			}
		}
	}
	follow(want)
	if parts < 8 {
		t.Fatalf("%s: only %d parts", repo, parts)
	}
}

// Each request of a push fails once: the push fails and says so, or all of the index arrives.
func TestPushFaults(t *testing.T) {
	imagetest.CleanTemp(t)
	idx := mixedIndex(t)
	raw := imagetest.Must[[]byte](t)(idx.RawManifest())
	// The registry has a blob of the first repository in the second one as well, so that it need not be sent.
	there := func(req *http.Request) bool {
		return req.Method == "PUT" && strings.HasPrefix(req.URL.Path, "/v2/second/blobs/")
	}
	eachFault(t, []fault{
		{"cut off", failed(errFault), func(req *http.Request) bool { return req.Method == "PATCH" || there(req) }},
		{"broken", failed(io.EOF), always},
		{"answer lost", lost, always},
		{"busy", answered(503, nil), always},
		{"forbidden", answered(403, nil), func(req *http.Request) bool {
			return req.URL.Query().Get("mount") != "" || req.Method == "HEAD" && strings.Contains(req.URL.Path, "/manifests/") || there(req)
		}},
	}, func(t *testing.T, host string, o media.Options) (func(), error) {
		for _, repo := range []string{"first", "second"} { // the second gets mounts
			if _, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: host + "/" + repo + ":1"}, media.Result{Index: idx}, o); err != nil {
				return nil, err
			}
		}
		return func() { whole(t, host, "first", "1", raw); whole(t, host, "second", "1", raw) }, nil
	})
}

// Each request of a pull fails once, or its answer breaks off: the pull fails and says so, or it is right.
func TestPullFaults(t *testing.T) {
	imagetest.CleanTemp(t)
	idx := mixedIndex(t)
	raw := imagetest.Must[[]byte](t)(idx.RawManifest())
	never := func(*http.Request) bool { return false }
	eachFault(t, []fault{
		{"cut off", failed(errFault), never},
		{"broken", failed(io.EOF), always},
		{"busy", answered(503, nil), always},
		{"forbidden", answered(403, nil), never},
		{"body cut off", answered(0, brokenAfter(3, errFault)), never},
		{"the body breaks off", answered(0, brokenAfter(3, io.ErrUnexpectedEOF)), always},
	}, func(t *testing.T, host string, o media.Options) (func(), error) {
		imagetest.Put(t, "docker://"+host+"/a/mixed:1", media.Result{Index: idx})
		src, err := sources.Open(context.Background(), "docker://"+host+"/a/mixed:1", o)
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(t.TempDir(), "out")
		_, err = sources.Put(context.Background(), media.Ref{Transport: media.OCILayout, Name: dir, Tag: "1"}, media.Result{Index: src.Index}, o)
		return func() {
			got := imagetest.Open(t, "oci:"+dir+":1")
			if got := imagetest.Must[[]byte](t)(got.Index.RawManifest()); !bytes.Equal(got, raw) {
				t.Errorf("got %s, want %s", got, raw)
			}
		}, errors.Join(err, src.Close())
	})
}
