package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// closing is a body that knows whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// debugged keeps the debugging lines.
type debugged struct {
	imagetest.Notes
	lines []string
}

func (d *debugged) Debug(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	return imagetest.Must[*http.Request](t)(http.NewRequest("GET", url, nil))
}

// The limit of an answer is that of what was asked first, however many redirects follow.
func TestLimitAfterRedirects(t *testing.T) {
	for path, limit := range map[string]int64{"/v2/a/tags/list": registry.MaxList, "/v2/a/blobs/sha256:0": registry.MaxList + 2} {
		req := get(t, "https://reg.example"+path)
		for _, to := range []string{"/v2/a/manifests/1", "/x"} {
			next := get(t, "https://reg.example"+to)
			next.Response = &http.Response{Request: req}
			req = next
		}
		next := imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(io.LimitReader(zeros{}, registry.MaxList+2)), Request: req}, nil
		})
		resp, err := registry.Wire(next, registry.Options{Stall: time.Hour, Meter: &registry.Meter{}}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := io.Copy(io.Discard, resp.Body); n > limit+1 || n < limit-1 {
			t.Errorf("%s: got %d bytes, want %d", path, n, limit)
		}
	}
}

// Each answer but that with a blob has a limit: an error is cut off there, all others are refused.
func TestAnswersAreLimited(t *testing.T) {
	const refused, cut, whole = "refused", "cut off", "whole"
	for _, c := range []struct {
		path   string
		status int
		size   int64
		want   string
	}{
		{"/v2/a/manifests/1", 200, blob.MaxManifest, whole},
		{"/v2/a/manifests/1", 200, blob.MaxManifest + 1, refused},
		{"/v2/a/manifests/1", 299, blob.MaxManifest + 1, refused},
		{"/v2/a/tags/list", 200, registry.MaxList, whole},
		{"/v2/a/tags/list", 200, registry.MaxList + 1, refused},
		{"/v2/_catalog", 200, registry.MaxList, whole},
		{"/v2/_catalog", 200, registry.MaxList + 1, refused},
		{"/v2/a/blobs/sha256:0", 200, registry.MaxList + 1, whole},
		{"/v2/a/blobs/sha256:0", 300, registry.MaxErrorAnswer, whole},
		{"/v2/a/blobs/sha256:0", 300, registry.MaxErrorAnswer + 1, cut},
		{"/v2/a/tags/list", 404, registry.MaxList, cut},
	} {
		body := &closing{Reader: io.LimitReader(zeros{}, c.size)}
		next := imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: c.status, Body: body, Request: req}, nil
		})
		meter := &registry.Meter{}
		resp, err := registry.Wire(next, registry.Options{Stall: time.Hour, Meter: meter}).RoundTrip(get(t, "https://reg.example"+c.path))
		if err != nil {
			t.Fatal(err)
		}
		// A read of more than the limit must not get it.
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 1_000_000))
		limit := map[string]int64{refused: c.size - 1, cut: registry.MaxErrorAnswer, whole: c.size}[c.want]
		if n != limit || (err != nil) != (c.want == refused) || errors.Is(err, hinterr.ErrDamaged) != (c.want == refused) {
			t.Errorf("%d bytes of %s with status %d: got %d bytes, %v, want %d, %s", c.size, c.path, c.status, n, err, limit, c.want)
		}
		if c.want == refused && (!body.closed || !strings.Contains(hinterr.HintOf(err), "operator")) {
			t.Errorf("%s: closed: %v, hint %q", c.path, body.closed, hinterr.HintOf(err))
		}
		if got := meter.Total(); got.Requests != 1 || got.Received < limit || got.Received > limit+1 || got.Sent != 0 || got.Retries != 0 {
			t.Errorf("%s: counted %+v, want 1 request and %d bytes", c.path, got, limit)
		}
	}
}

// A request and its result are a debugging line, without anything that may be secret; a request and
// all that belongs to it ends with its error, or when its answer is closed.
func TestRequestsAreReported(t *testing.T) {
	const at, shown = "https://user:secret@reg.example/v2/a/blobs/uploads/1?sig=secret", "PUT https://reg.example/v2/a/blobs/uploads/1: "
	broken := errors.New("broken")
	for _, c := range []struct {
		body io.Reader
		err  error
		want string
	}{
		{strings.NewReader("12345"), nil, shown + "204 No Content after "},
		{nil, nil, shown + "204 No Content after "},
		{strings.NewReader("12345"), broken, shown + "broken after "},
	} {
		var sent *http.Request
		next := imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
			sent = req
			if req.Body != nil {
				io.Copy(io.Discard, req.Body)
			}
			return &http.Response{StatusCode: 204, Status: "204 No Content", Body: io.NopCloser(strings.NewReader("")), Request: req}, c.err
		})
		lines, meter := &debugged{}, &registry.Meter{}
		o := registry.Options{Stall: time.Hour, Progress: lines, Meter: meter}
		req := imagetest.Must[*http.Request](t)(http.NewRequest("PUT", at, c.body))
		if c.body == nil {
			req.Body = http.NoBody
		}
		req.Header.Set("Authorization", "secret")
		resp, err := registry.Wire(next, o).RoundTrip(req)
		if !errors.Is(err, c.err) {
			t.Errorf("got %v, want %v", err, c.err)
		}
		if len(lines.lines) != 1 || !strings.HasPrefix(lines.lines[0], c.want) || strings.Contains(lines.lines[0], "secret") {
			t.Errorf("got the lines %q, want %q", lines.lines, c.want)
		}
		if c.body == nil && sent.Body != http.NoBody {
			t.Error("a request without a body is sent with one") // in chunks, which not every server takes
		}
		if got := meter.Total(); got.Requests != 1 || got.Sent != map[bool]int64{true: 5}[c.body != nil] || got.Retries != 0 {
			t.Errorf("counted %+v", got)
		}
		if err == nil {
			if sent.Context().Err() != nil {
				t.Error("the request ended before its answer was read")
			}
			resp.Body.Close()
		}
		if sent.Context().Err() == nil {
			t.Error("the request does not end")
		}
	}
}

// The requests to each host wait for their turn, the first excepted.
func TestRequestsPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
		})
		w := registry.Wire(next, registry.Options{Stall: time.Hour, PerSecond: 0.5})
		began := time.Now()
		for _, c := range []struct {
			host string
			at   time.Duration
		}{{"one", 0}, {"two", 0}, {"one", 2 * time.Second}, {"one", 4 * time.Second}, {"two", 4 * time.Second}} {
			resp := imagetest.Must[*http.Response](t)(w.RoundTrip(get(t, "https://"+c.host+".example/")))
			resp.Body.Close()
			if at := time.Since(began); at != c.at {
				t.Errorf("%s: sent after %v, want %v", c.host, at, c.at)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body := &closing{Reader: strings.NewReader("x")}
		req := imagetest.Must[*http.Request](t)(http.NewRequestWithContext(ctx, "PUT", "https://one.example/", body))
		if resp, err := w.RoundTrip(req); err == nil || !body.closed {
			t.Errorf("a turn that comes too late: %v, %v, closed: %v", resp, err, body.closed)
		}
	})
}

// paced is a body that comes in parts, with a pause before each; or it ends with its request.
type paced struct {
	ctx   context.Context
	parts []int
	pause time.Duration
}

func (b *paced) Read(p []byte) (int, error) {
	select {
	case <-time.After(b.pause):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	if len(b.parts) == 0 {
		return 0, io.EOF
	}
	n := b.parts[0]
	b.parts = b.parts[1:]
	return n, nil
}

func (b *paced) Close() error { return nil }

// An answer must make progress: so many bytes a second, measured over the time for a stall, which runs only while
// the answer is read.
func TestLeastProgress(t *testing.T) {
	const stall = 30 * time.Second
	blobBytes, answerBytes := int(stall.Seconds())*registry.LeastBlob, int(stall.Seconds())*registry.LeastAnswer
	for _, c := range []struct {
		name  string
		path  string
		parts []int
		pause time.Duration
		idle  time.Duration // of the reader, after each part
		want  string
	}{
		{name: "a blob, each part just in time", path: "blobs", parts: []int{blobBytes, blobBytes, blobBytes}, pause: stall - 1},
		{name: "a blob, in parts", path: "blobs", parts: []int{blobBytes - 1, 1, blobBytes, 1}, pause: stall/2 - 1},
		{name: "a blob, too slow", path: "blobs", parts: []int{blobBytes - 1, 0, 1}, pause: stall/2 - 1, want: fmt.Sprintf("only %d bytes in 30s", blobBytes-1)},
		{name: "a manifest, each part just in time", path: "manifests", parts: []int{answerBytes, answerBytes}, pause: stall - 1},
		{name: "a manifest, too slow", path: "manifests", parts: []int{answerBytes - 1, 0, 1}, pause: stall/2 - 1, want: fmt.Sprintf("only %d bytes in 30s", answerBytes-1)},
		{name: "nothing", path: "blobs", parts: []int{1}, pause: stall + 1, want: "no progress for 30s"},
		{name: "a slow reader", path: "blobs", parts: []int{1, 1, 1}, pause: 1, idle: time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Body: &paced{req.Context(), c.parts, c.pause}, Request: req}, nil
				})
				resp := imagetest.Must[*http.Response](t)(registry.Wire(next, registry.Options{Stall: stall}).RoundTrip(get(t, "https://reg.example/v2/a/"+c.path+"/x")))
				defer resp.Body.Close()
				var err error
				for p := make([]byte, 1<<20); err == nil; {
					_, err = resp.Body.Read(p)
					time.Sleep(c.idle)
				}
				if c.want != "" {
					imagetest.WantErr(t, err, nil, "registry reg.example: "+c.want)
				} else if err != io.EOF {
					t.Error(err)
				}
			})
		})
	}
}

// While a request is sent, the clock runs only in the other side's turn: not while its body is read here, and not
// after its answer has begun.
func TestSentInTime(t *testing.T) {
	const stall = 30 * time.Second
	for _, c := range []struct {
		name string
		next func(req *http.Request) (*http.Response, error)
		want string
	}{
		{"the other side takes its time", func(req *http.Request) (*http.Response, error) {
			for range 3 {
				req.Body.Read(make([]byte, 1))
				time.Sleep(stall - 1)
			}
			return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, req.Context().Err()
		}, ""},
		{"the other side stops", func(req *http.Request) (*http.Response, error) {
			req.Body.Read(make([]byte, 1))
			<-req.Context().Done()
			return nil, req.Context().Err() // without the cause, as for HTTP/2
		}, "registry reg.example: no progress for 30s"},
		{"an early answer", func(req *http.Request) (*http.Response, error) {
			answer := &paced{req.Context(), []int{1, 1, 1}, stall / 5}
			go func() {
				time.Sleep(time.Nanosecond)
				req.Body.Read(make([]byte, 1))
			}()
			return &http.Response{StatusCode: 200, Body: answer, Request: req}, nil
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := &paced{t.Context(), []int{1, 1, 1}, 2 * stall} // a slow disk
				req := imagetest.Must[*http.Request](t)(http.NewRequest("PUT", "https://reg.example/v2/a/blobs/uploads/1", body))
				resp, err := registry.Wire(imagetest.RoundTrip(c.next), registry.Options{Stall: stall}).RoundTrip(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					time.Sleep(3 * stall)
					if err == nil && resp.Request.Context().Err() != nil {
						err = context.Cause(resp.Request.Context())
					}
					resp.Body.Close()
				}
				if c.want != "" {
					imagetest.WantErr(t, err, nil, c.want)
				} else if err != nil {
					t.Error(err)
				}
			})
		})
	}
}
