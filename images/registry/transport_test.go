package registry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// sluggish is fast, with a registry that may stall for a tenth of a second.
func sluggish() media.Options {
	o := imagetest.Fast
	o.Stall = 100 * time.Millisecond
	return o
}

// times answers a request that matches with status the first n times.
func times(n int64, method, path string, status int, header ...string) func(http.ResponseWriter, *http.Request) bool {
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || !strings.Contains(r.URL.Path, path) || seen.Add(1) > n {
			return false
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		return true
	}
}

// A request with a temporary error is repeated, for reads and writes, and succeeds.
func TestRegistryRetries(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: img})
	now := time.Now().UTC().Format(http.TimeFormat)
	for n, c := range []struct {
		name  string
		spoil func(http.ResponseWriter, *http.Request) bool
	}{
		{"429 manifest", times(2, "GET", "/manifests/", 429, "Retry-After", "0")},
		{"429 with a date", times(2, "GET", "/manifests/", 429, "Retry-After", now)},
		{"429 with nonsense", times(2, "GET", "/manifests/", 429, "Retry-After", "soon")},
		{"503 blob", times(2, "GET", "/blobs/", 503)},
		{"500 ping", times(2, "GET", "/v2/", 500)},
		{"502 start of an upload", times(2, "POST", "/blobs/uploads/", 502)},
		{"500 upload", times(2, "PATCH", "/blobs/uploads/", 500)},
		{"504 end of an upload", times(2, "PUT", "/blobs/uploads/", 504)},
		{"503 manifest put", times(2, "PUT", "/manifests/", 503)},
		{"404 upload", times(1, "PATCH", "/blobs/uploads/", 404)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var hit atomic.Bool
			f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
				done := c.spoil(w, r)
				if done {
					hit.Store(true)
				}
				return done
			})
			notes := &imagetest.Notes{}
			o := imagetest.Fast
			o.Progress = notes
			src, err := sources.Open(context.Background(), "docker://"+f.Host+"/a/tiny:1", o)
			if err != nil {
				t.Fatal(err)
			}
			// Another image each time: blobs that are there are not sent.
			fresh := noiseImage(t, (n+2)<<16)
			to := media.Ref{Transport: media.Registry, Name: f.Host + "/b/tiny:" + strings.ReplaceAll(c.name, " ", "-")}
			if _, err := sources.Put(context.Background(), to, media.Result{Image: fresh}, o); err != nil {
				t.Fatal(err)
			}
			imagetest.SameImage(t, src.Image, img)
			if !hit.Load() || !strings.Contains(strings.Join(notes.Text, "\n"), "next try in ") {
				t.Errorf("no request was spoiled, or none repeated: %q", notes.Text)
			}
			f.Reset(nil)
			imagetest.SameImage(t, imagetest.Open(t, "docker://"+to.Name).Image, fresh)
		})
	}
}

// A registry that breaks the connection, or sends a byte now and then, costs a try for any request; vfix gives up
// on one that never ends.
func TestAnswersResume(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: img})
	m := imagetest.Must[*v1.Manifest](t)(img.Manifest())
	manifest, config := imagetest.Must[[]byte](t)(img.RawManifest()), imagetest.Must[[]byte](t)(img.RawConfigFile())
	parts := map[string][]byte{"/manifests/1": manifest, m.Config.Digest.String(): config}
	for path, content := range parts {
		for _, c := range []struct {
			name string
			bad  int // answers
			say  string
		}{
			{"breaks off", 2, ""},
			{"breaks off always", 1000, "the connection broke"},
			{"trickles", 2, ""},
			{"trickles always", 1000, "bytes in 100ms"},
		} {
			t.Run(path[:9]+" "+c.name, func(t *testing.T) {
				var seen atomic.Int64
				f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != "GET" || !strings.HasSuffix(r.URL.Path, path) || seen.Add(1) > int64(c.bad) {
						return false
					}
					w.Header().Set("Content-Type", string(m.MediaType))
					w.Header().Set("Content-Length", fmt.Sprint(len(content)))
					if strings.HasPrefix(c.name, "breaks") {
						w.Write(content[:len(content)/2])
						w.(http.Flusher).Flush()
						panic(http.ErrAbortHandler)
					}
					for i := range content {
						if _, err := w.Write(content[i : i+1]); err != nil || r.Context().Err() != nil {
							return true
						}
						w.(http.Flusher).Flush()
						time.Sleep(20 * time.Millisecond)
					}
					return true
				})
				src, err := sources.Open(context.Background(), "docker://"+f.Host+"/a/tiny:1", sluggish())
				if err == nil {
					_, err = src.Image.ConfigFile()
				}
				if c.say != "" {
					imagetest.WantErr(t, err, nil, "registry "+f.Host, c.say)
				} else if err != nil {
					t.Fatal(err)
				} else {
					imagetest.SameImage(t, src.Image, img)
				}
				if n := seen.Load(); n < 3 || n > 20 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

// deadline is an error that may be of a time that is over.
type deadline bool

func (d deadline) Error() string { return "deadline" }
func (d deadline) Timeout() bool { return bool(d) }

// TestIsTemporary: errors of connections that may not occur the next time, and errors that will.
func TestIsTemporary(t *testing.T) {
	for want, all := range map[bool][]error{
		true: {errors.New("http: server closed idle connection"), errors.New("http2: client conn could not be established"), io.EOF, &net.OpError{Op: "write", Err: syscall.EPIPE},
			&net.DNSError{IsTimeout: true}, &net.DNSError{IsTemporary: true}, deadline(true)},
		false: {nil, registry.ErrPlainHTTP, context.Canceled, &tls.CertificateVerificationError{Err: io.EOF}, &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")},
			&net.DNSError{IsNotFound: true}, deadline(false)},
	} {
		for _, err := range all {
			if registry.IsTemporary(err) != want {
				t.Errorf("%v: got %v, want %v", err, !want, want)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"2147483647": (1<<31 - 1) * time.Second, "2147483648": -1,
		"120": 2 * time.Minute, "0": 0, "-5": 0,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 11:00:00 GMT": 0,
		"": -1, "soon": -1, "1e3": -1, "99999999999999999999": -1,
	} {
		got, ok := registry.RetryAfter(text, now)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, ok, want)
		}
	}
	p := registry.RetryPolicy{Tries: 4, First: time.Second, Most: time.Minute}
	answer := func(after string) *http.Response { return &http.Response{Header: http.Header{"Retry-After": {after}}} }
	if wait, ok := p.Pause(1, answer("59")); !ok || wait != 59*time.Second {
		t.Errorf("got %v, %v", wait, ok)
	}
	if _, ok := p.Pause(1, answer("61")); ok {
		t.Error("waits longer than the bound")
	}
	if _, ok := p.Pause(4, nil); ok {
		t.Error("tries more often than it may")
	}
	if wait, ok := p.Pause(3, nil); !ok || wait < 4*time.Second || wait > 5*time.Second {
		t.Errorf("third pause: %v", wait)
	}
}

// A login is made once for each purpose, to pull or to push; requests, bytes and retries are counted.
func TestLoginsAndCounts(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := noiseImage(t, 1<<20)
	imagetest.Put(t, "docker://"+f.Host+"/a/noise:1", media.Result{Image: img})
	var scopes []string
	var ill atomic.Int64
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token":
			scopes = append(scopes, strings.Join(r.URL.Query()["scope"], "+"))
			fmt.Fprint(w, `{"token":"tok"}`)
		case r.Header.Get("Authorization") != "Bearer tok":
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+f.Host+`/token",service="s"`)
			w.WriteHeader(401)
		case strings.Contains(r.URL.Path, "/manifests/1") && ill.Add(1) <= 2:
			w.WriteHeader(503)
		default:
			return false
		}
		return true
	})
	o := imagetest.Fast
	o.Meter = &registry.Meter{}
	o = o.WithDefaults()
	for range 2 {
		src := imagetest.Must[*media.Source](t)(sources.Open(context.Background(), "docker://"+f.Host+"/a/noise:1", o))
		imagetest.SameImage(t, src.Image, img)
	}
	if want := []string{"repository:a/noise:pull"}; !slices.Equal(scopes, want) {
		t.Errorf("to pull: asked for %q, want %q", scopes, want)
	}
	pulled := o.Meter.Total()
	size := imagetest.Must[*v1.Manifest](t)(img.Manifest()).Layers[0].Size
	if pulled.Received < size || pulled.Sent != 0 || pulled.Retries != 2 {
		t.Errorf("to pull a layer of %d bytes: %+v", size, pulled)
	}
	scopes = nil
	for _, tag := range []string{":1", ":2"} {
		if _, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/b/noise" + tag}, media.Result{Image: noiseImage(t, 1<<19)}, o); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"repository:b/noise:push,pull"}; !slices.Equal(scopes, want) {
		t.Errorf("to push: asked for %q, want %q", scopes, want)
	}
	if pushed := o.Meter.Total(); pushed.Sent < 1<<19 || pushed.Requests <= pulled.Requests {
		t.Errorf("to push: %+v", pushed)
	}
}

// A refused connection is tried again, unless it is to this machine, for which plain HTTP comes next.
func TestRefused(t *testing.T) {
	for name, want := range map[string]int{"reg.example/a": 3, "127.0.0.1:5000/a": 2} {
		o := imagetest.Fast.WithDefaults()
		dialled := 0
		o.Net.Dial(func(context.Context, string, string) (net.Conn, error) {
			dialled++
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		})
		_, err := sources.Open(context.Background(), "docker://"+name+":1", o)
		imagetest.WantErr(t, err, nil, "refused")
		if dialled != want {
			t.Errorf("%s: %d connections, want %d", name, dialled, want)
		}
	}
}

// A registry that requests a longer wait than the limit is an error at once.
func TestRegistryAsksTooMuch(t *testing.T) {
	f := imagetest.NewRegistry(t)
	f.Reset(times(9, "GET", "/v2/", 429, "Retry-After", "86400"))
	o := imagetest.Fast.WithDefaults()
	for n := range 2 { // the error is not remembered
		_, err := sources.Open(context.Background(), "docker://"+f.Host+"/a/tiny:1", o)
		imagetest.WantErr(t, err, nil, "too many requests (429")
		if got := f.Count("GET /v2/"); got != n+1 {
			t.Errorf("got %d tries, want %d", got, n+1)
		}
	}
}

// hanging returns a function that does not return before the test has ended.
func hanging(t *testing.T) func() {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return func() { <-over }
}

// A request to a stalled registry is repeated and then ends in an error that reports this: if it does not answer,
// stops in an answer, does not accept more data, or does not answer a PUT.
func TestRegistryStalls(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	small := imagetest.TinyImage(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: small})
	big := noiseImage(t, 16<<20) // more than the buffers of a connection hold
	for name, method := range map[string]string{"answer": "GET", "body": "GET", "upload": "PATCH", "end": "PUT"} {
		t.Run(name, func(t *testing.T) {
			hang := hanging(t)
			f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != method || !strings.Contains(r.URL.Path, "/blobs/") {
					return false
				}
				if name == "body" {
					w.WriteHeader(200)
					w.(http.Flusher).Flush()
				}
				hang()
				return true
			})
			var err error
			if method == "GET" {
				_, err = sources.Open(context.Background(), "docker://"+f.Host+"/a/tiny:1", sluggish())
			} else {
				_, err = sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/b/tiny:1"}, media.Result{Image: big}, sluggish())
			}
			imagetest.WantErr(t, err, nil, "registry "+f.Host, "no progress for 100ms")
			if !strings.Contains(hinterr.HintOf(err), "--stall-timeout") {
				t.Errorf("hint %q", hinterr.HintOf(err))
			}
		})
	}
}

// A slow transfer with progress is not ended: the clock runs only while no data arrive.
func TestRegistrySlow(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := noiseImage(t, 1<<16)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: img})
	l := imagetest.Must[[]v1.Layer](t)(img.Layers())[0]
	digest := imagetest.Must[v1.Hash](t)(l.Digest())
	content := imagetest.Must[[]byte](t)(io.ReadAll(imagetest.Must[io.ReadCloser](t)(l.Compressed())))
	o := imagetest.Fast
	o.Stall = 2 * time.Second // far more than a pause, for a machine that is busy
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "GET" || !strings.HasSuffix(r.URL.Path, digest.String()) {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		const parts, pause = 15, 150 * time.Millisecond // together longer than one may take
		for i := range parts {
			w.Write(content[i*len(content)/parts : (i+1)*len(content)/parts])
			w.(http.Flusher).Flush()
			time.Sleep(pause)
		}
		return true
	})
	src := imagetest.Must[*media.Source](t)(sources.Open(context.Background(), "docker://"+f.Host+"/a/tiny:1", o))
	rc := imagetest.Must[io.ReadCloser](t)(imagetest.Must[[]v1.Layer](t)(src.Image.Layers())[0].Compressed())
	defer rc.Close()
	if _, err := io.Copy(io.Discard, rc); err != nil {
		t.Error(err)
	}
	if f.Count(digest.String()) != 1 {
		t.Errorf("requests: %q", f.Seen)
	}
}

// A download whose connection breaks resumes, or begins again if the registry has no ranges; it never ends with
// other content.
func TestDownloadResumes(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := noiseImage(t, 1<<20)
	imagetest.Put(t, "docker://"+f.Host+"/a/noise:1", media.Result{Image: img})
	l := imagetest.Must[[]v1.Layer](t)(img.Layers())[0]
	digest := imagetest.Must[v1.Hash](t)(l.Digest())
	content := imagetest.Must[[]byte](t)(io.ReadAll(imagetest.Must[io.ReadCloser](t)(l.Compressed())))
	const part = 300_000
	for _, c := range []struct {
		name   string
		ranges bool
		other  bool // other bytes behind the break
		bad    string
		then   lie // what answers after the break
		cuts   int
		want   string
	}{
		{name: "ranges", ranges: true, cuts: 2},
		{name: "no ranges", cuts: 1},
		{name: "other bytes", ranges: true, other: true, cuts: 1, want: "got sha256:"},
		{name: "wrong range", ranges: true, bad: "bytes 0-9/10", cuts: 1, want: `got the range "bytes 0-9/10"`},
		{name: "range of another blob", ranges: true, bad: "bytes 300000-1048575/1048576", cuts: 1, want: "got the range"},
		{name: "another length", then: says(200, append(bytes.Clone(content), 0), fmt.Sprintf("Content-Length: %d", len(content)+1)),
			cuts: 1, want: fmt.Sprintf("got %d bytes, want %d", len(content)+1, len(content))},
		{name: "forbidden", then: says(403, nil), cuts: 1, want: "403 Forbidden"},
		{name: "gone", then: says(404, nil), cuts: 1, want: "the registry does not have it"},
		{name: "never the rest", then: says(416, nil), cuts: 1, want: "416 "},
		{name: "hangs up", then: raw(""), cuts: 1, want: "registry " + f.Host},
		{name: "always", ranges: true, cuts: 1000, want: "the connection broke"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent, ranged := 0, ""
			f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != "GET" || !strings.HasSuffix(r.URL.Path, digest.String()) {
					return false
				}
				if sent > 0 && c.then != nil {
					return c.then(w, r, 1)
				}
				var from int
				if ranged = r.Header.Get("Range"); c.ranges && ranged != "" {
					fmt.Sscanf(ranged, "bytes=%d-", &from)
				}
				body := bytes.Clone(content[from:])
				if c.other && from > 0 {
					body[10] ^= 1
				}
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				if from > 0 {
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
					if c.bad != "" {
						w.Header().Set("Content-Range", c.bad)
					}
					w.WriteHeader(http.StatusPartialContent)
				}
				if sent++; sent <= c.cuts {
					if c.cuts == 1000 {
						body = body[:min(len(body), 10)]
					}
					w.Write(body[:min(len(body), part)])
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
				w.Write(body)
				return true
			})
			src := imagetest.Must[*media.Source](t)(sources.Open(context.Background(), "docker://"+f.Host+"/a/noise:1", imagetest.Fast))
			rc := imagetest.Must[io.ReadCloser](t)(imagetest.Must[[]v1.Layer](t)(src.Image.Layers())[0].Compressed())
			defer rc.Close()
			got, err := io.ReadAll(rc)
			if c.want != "" {
				imagetest.WantErr(t, err, nil, c.want)
				if c.name == "wrong range" && sent != 2 {
					t.Errorf("%d requests, and a wrong answer stays one", sent)
				}
				return
			}
			if err != nil || !bytes.Equal(got, content) {
				t.Fatalf("%d of %d bytes, %v", len(got), len(content), err)
			}
			if sent != c.cuts+1 || !strings.HasPrefix(ranged, "bytes=") || ranged == "bytes=0-" {
				t.Errorf("%d requests, the last for %q", sent, ranged)
			}
		})
	}
}

// Plain HTTP is used only for this machine, whatever go-containerregistry derives from a name.
func TestPlainHTTP(t *testing.T) {
	sent := 0
	next := imagetest.RoundTrip(func(*http.Request) (*http.Response, error) { sent++; return nil, errors.New("sent") })
	for url, want := range map[string]bool{
		"http://127.0.0.1:5000/": true, "http://localhost:5000/": true, "http://[::1]:5000/": true, "https://reg.example/": true,
		"http://10.0.0.1:5000/": false, "http://192.168.1.1/": false, "http://reg.local/": false, "http://reg.example/": false,
		"http://127.0.0.1.nip.example/": false, "ftp://reg.example/": false,
	} {
		for _, insecure := range []bool{false, true} {
			sent = 0
			body := &closing{Reader: strings.NewReader("x")}
			_, err := registry.Wire(next, registry.Options{Insecure: insecure, Stall: time.Minute}).RoundTrip(imagetest.Must[*http.Request](t)(http.NewRequest("PUT", url, body)))
			if got := sent == 1; got != (want || insecure) || err == nil || !got && !errors.Is(err, registry.ErrPlainHTTP) {
				t.Errorf("%s, insecure %v: sent %v, %v", url, insecure, got, err)
			}
			if sent == 0 && !body.closed {
				t.Errorf("%s, insecure %v: the body is not closed", url, insecure)
			}
		}
	}
}

// A registry cannot redirect vfix to addresses that only this machine reaches, nor to a name of one.
func TestRedirects(t *testing.T) {
	imagetest.Names(t, map[string]string{
		"reg.example.": "203.0.113.5", "storage.example.": "198.51.100.1", "inside.example.": "10.0.0.9",
		"metadata.example.": "169.254.169.254", "home.example.": "127.0.0.1",
	})
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"https://reg.example/", "https://storage.example/x", true},
		{"https://unknown.example/", "https://10.0.0.1/x", true},
		{"https://reg.example/", "https://10.0.0.1/x", false},
		{"https://reg.example/", "https://inside.example/x", true},
		{"https://reg.example/", "https://metadata.example/latest", false},
		{"https://reg.example/", "https://home.example/x", false},
		{"https://10.0.0.1/", "https://metadata.example/latest", false},
		{"https://home.example/", "https://127.0.0.1/x", true},
		{"https://home.example/", "https://home.example:5001/x", true},
		{"https://reg.example/", "https://localhost./x", false},
		{"https://reg.example/", "https://LocalHost/x", false},
		{"https://reg.example/", "https://a.localhost/x", false},
		{"https://reg.example/", "https://REG.example/x", true},
		{"https://203.0.113.5/", "https://[::ffff:10.0.0.1]/x", false},
		{"https://203.0.113.5/", "https://10.0.0.1/x", false},
		{"https://203.0.113.5/", "https://100.64.0.1/x", false},
		{"https://203.0.113.5/", "https://[::ffff:100.64.0.1]/x", false},
		{"https://localhost/", "https://10.0.0.1/x", true},
		{"https://203.0.113.5/", "https://[fd00::1]/x", false},
		{"https://203.0.113.5/", "https://198.51.100.1/x", true},
		{"https://10.0.0.1/", "https://192.168.0.1/x", true},
		{"https://10.0.0.1/", "https://10.0.0.1:5001/x", true},
		{"https://10.0.0.1/", "https://169.254.169.254/x", false},
		{"https://10.0.0.1/", "https://0.0.0.0/x", false},
		{"https://10.0.0.1/", "https://[::ffff:0.0.0.0]/x", false},
		{"https://10.0.0.1/", "https://[::ffff:127.0.0.1]/x", false},
		{"http://127.0.0.1:5000/", "http://127.0.0.2:6000/x", true},
		{"http://localhost:5000/", "http://127.0.0.1:6000/x", true},
		{"https://reg.example/", "https://169.254.169.254/latest", false},
		{"https://reg.example/", "https://localhost/x", false},
		{"https://reg.example/", "https://[::ffff:127.0.0.1]/x", false},
		{"http://127.0.0.1:5000/", "http://127.0.0.1:5001/", true},
	} {
		via := []*http.Request{imagetest.Must[*http.Request](t)(http.NewRequest("GET", c.from, nil))}
		if err := registry.CheckRedirect(imagetest.Must[*http.Request](t)(http.NewRequest("GET", c.to, nil)), via); (err == nil) != c.ok {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}
