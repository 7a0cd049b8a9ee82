package registry_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// answers are a registry's answers to any number of requests.
type answers struct {
	manifest, config, layer, index, token, list []byte
	// Requests with within in their path get status, if it is one, and headers ("Name: value", a line each);
	// endless: the body again and again.
	within, headers string
	status          int
	endless         bool

	m     *v1.Manifest // what the truth is
	count atomic.Int64
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	a.count.Add(1)
	path := req.URL.Path
	resp := &http.Response{StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: req}
	say := func(body []byte, contentType string) {
		resp.Header.Set("Content-Type", contentType)
		resp.ContentLength, resp.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
	}
	switch {
	case path == "/v2/":
		say(nil, "")
	case strings.Contains(path, "token"):
		say(a.token, "application/json")
	case strings.HasSuffix(path, "/manifests/index"):
		say(a.index, "application/vnd.oci.image.index.v1+json")
	case strings.Contains(path, "/manifests/"):
		say(a.manifest, string(a.m.MediaType))
	case strings.HasSuffix(path, a.m.Config.Digest.String()):
		say(a.config, "application/octet-stream")
	case strings.Contains(path, "/blobs/"):
		say(a.layer, "application/octet-stream")
	default:
		say(a.list, "application/json")
	}
	if a.within == "" || !strings.Contains(path, a.within) {
		return resp, nil
	}
	if a.status >= 200 && a.status < 600 {
		resp.StatusCode = a.status
	}
	for line := range strings.Lines(a.headers) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			resp.Header.Set(textproto.CanonicalMIMEHeaderKey(name), value)
		}
	}
	if body, _ := io.ReadAll(resp.Body); a.endless && len(body) > 0 {
		body = bytes.Repeat(body, 4096/len(body)+1)
		resp.ContentLength, resp.Body = -1, io.NopCloser(&again{body: body})
	} else {
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	return resp, nil
}

// again is a body without an end.
type again struct {
	body []byte
	at   int
}

func (a *again) Read(p []byte) (int, error) {
	n := copy(p, a.body[a.at:])
	a.at = (a.at + n) % len(a.body)
	return n, nil
}

// Bounds of what all questions of one input cost.
const (
	mostRequests = 500
	mostBytes    = 1 << 30 // allocated in all; a list of 64 MiB is read a few times
	mostTime     = 20 * time.Second
)

// FuzzAnswers reads bytes as a registry's answers: challenge, token, manifest, index, config, layer, lists and one
// kind of header. For any bytes, a result is right, an error is in words, and both come soon.
func FuzzAnswers(f *testing.F) {
	img, idx := imagetest.TinyImage(f), imagetest.TinyIndex(f)
	m := imagetest.Must[*v1.Manifest](f)(img.Manifest())
	digest := imagetest.Must[v1.Hash](f)(img.Digest()).String()
	manifest, config, layer := imagetest.Must[[]byte](f)(img.RawManifest()), imagetest.Must[[]byte](f)(img.RawConfigFile()), layerBytes(f, img, 0)
	index := imagetest.Must[[]byte](f)(idx.RawManifest())
	token, list := []byte(`{"token":"t","access_token":"a","expires_in":60}`), []byte(`{"name":"a/b","tags":["1","2"],"repositories":["a/b"]}`)
	for _, s := range []struct {
		within, headers string
		status          int
		endless         bool
	}{
		{},
		{"/v2/", `WWW-Authenticate: Bearer realm="http://127.0.0.1:5000/token",service="s"`, 401, false},
		{"/v2/", `WWW-Authenticate: Bearer realm="http://10.0.0.1/token",service="s",scope="repository:a/b:pull"`, 401, false},
		{"/v2/", `WWW-Authenticate: Basic realm="x"`, 401, false},
		{"/manifests/", "Docker-Content-Digest: " + digest, 200, false},
		{"/manifests/", "Content-Type: application/vnd.docker.distribution.manifest.v1+prettyjws", 200, false},
		{"/manifests/", "Location: /v2/a/b/manifests/index", 307, false},
		{"/manifests/", "Retry-After: 99999999999", 429, false},
		{"/manifests/", "", 200, true},
		{"/blobs/", "Location: https://storage.example/x?signature=1", 307, false},
		{"/blobs/", "Content-Range: bytes 0-9/10", 206, false},
		{"/blobs/", "Content-Encoding: gzip", 200, true},
		{"list", `Link: </v2/a/b/tags/list?last=2&n=2>; rel="next"`, 200, false},
		{"_catalog", `Link: </v2/_catalog?last=a>; rel="next"`, 200, false},
		{"token", "", 200, true},
	} {
		f.Add(manifest, config, layer, index, token, list, s.within, s.headers, s.status, s.endless)
	}
	f.Setenv("DOCKER_CONFIG", f.TempDir())
	for _, dir := range []string{"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
		f.Setenv(dir, f.TempDir())
	}
	retry := registry.RetryPolicy{Tries: 3, First: time.Microsecond, Most: time.Millisecond}
	truth := [][]byte{manifest, config, layer}

	f.Fuzz(func(t *testing.T, manifest, config, layer, index, token, list []byte, within, headers string, status int, endless bool) {
		a := &answers{manifest: manifest, config: config, layer: layer, index: index, token: token, list: list,
			within: within, headers: headers, status: status, endless: endless, m: m}
		ctx, cancel := context.WithTimeout(t.Context(), mostTime)
		defer cancel()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		o := media.Options{Options: registry.Options{Retry: retry}}
		o.Net = registry.NewNetwork(registry.Options{UserAgent: "vfix", Stall: mostTime, Retry: retry})
		o.Net.Answer(a)
		o = o.WithDefaults()

		const host, repo = "127.0.0.1:5000", "127.0.0.1:5000/a/b"
		for _, ref := range []string{repo + ":1", repo + ":index", repo + "@" + digest} {
			got, err := pulled(ctx, "docker://"+ref, o)
			inWords(t, err)
			// A tag is what the registry says that it is; a digest is one image.
			if err == nil && strings.HasSuffix(ref, digest) && !slices.EqualFunc(got, truth, bytes.Equal) {
				t.Errorf("%s is another image: %q", ref, got)
			}
		}
		r := imagetest.Must[name.Repository](t)(name.NewRepository(repo))
		inWords(t, media.EachTags(ctx, r, o, func([]name.Tag) error { return nil }))
		inWords(t, media.EachRepository(ctx, host, "", o, func(name.Repository) error { return nil }))
		_, err := media.RegistryDigest(ctx, media.Ref{Transport: media.Registry, Name: repo + ":1"}, o)
		inWords(t, err)

		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > mostBytes {
			t.Errorf("%d bytes were allocated", n)
		}
		if n := a.count.Load(); n > mostRequests {
			t.Errorf("%d requests", n)
		}
		if ctx.Err() != nil {
			t.Error("it takes too long")
		}
	})
}

// pulled reads all of an image: its manifest, config and layers, and checks their digests.
func pulled(ctx context.Context, source string, o media.Options) (all [][]byte, err error) {
	src, err := sources.Open(ctx, source, o)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	manifest, err := src.Image.RawManifest()
	if err != nil {
		return nil, err
	}
	m, err := src.Image.Manifest()
	if err != nil {
		return nil, err
	}
	config, err := src.Image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	all = [][]byte{manifest, config}
	want := []v1.Descriptor{m.Config}
	layers, err := src.Image.Layers()
	if err != nil {
		return nil, err
	}
	for n, l := range layers {
		rc, err := l.Compressed()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(rc)
		rc.Close()
		if err != nil {
			return nil, err
		}
		all, want = append(all, data), append(want, m.Layers[n])
	}
	for n, d := range want {
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256(all[n+1])); got != d.Digest.String() && !src.Made {
			panic(fmt.Sprintf("%s: part %d is %s, want %v", source, n, got, d.Digest))
		}
	}
	return all, nil
}

// inWords fails for an internal error message.
func inWords(t *testing.T, err error) {
	t.Helper()
	for _, word := range []string{"json: ", "runtime error", "%!"} {
		if err != nil && strings.Contains(err.Error(), word) {
			t.Errorf("%v: in words of Go", err)
		}
	}
}
