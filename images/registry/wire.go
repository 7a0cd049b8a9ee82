// One request to a host: this refuses, delays, counts, reports and ends it, and limits the answer, all of which
// go-containerregistry's own clients do not do.

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

const misconfigured = "this is an error of the registry or of a proxy in front of it: report it to its operator"

// errPlainHTTP refuses plain HTTP, which go-containerregistry tries for private addresses.
var errPlainHTTP = errors.New("plain HTTP is not allowed: others on the network can read and change it")

// wire sends requests.
type wire struct {
	next   http.RoundTripper
	o      *Options
	limits sync.Map // of *rate.Limiter, by host
}

func refuse(req *http.Request, err error) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	return nil, err
}

func (t *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !t.o.Insecure && !isLoopback(req.URL.Hostname()) {
		return refuse(req, errPlainHTTP)
	}
	if t.o.PerSecond > 0 {
		l, _ := t.limits.LoadOrStore(req.URL.Host, rate.NewLimiter(rate.Limit(t.o.PerSecond), 1))
		if err := l.(*rate.Limiter).Wait(req.Context()); err != nil {
			return refuse(req, err)
		}
	}
	begin := time.Now()
	resp, err := t.exchange(req)
	// Omit possible secrets: headers, the user, the query.
	what, took := req.Method+" "+req.URL.Scheme+"://"+req.URL.Host+req.URL.Path, time.Since(begin).Round(time.Millisecond)
	if err != nil {
		progress.Debug(t.o.Progress, "%s: %v after %v", what, err, took)
		return nil, err
	}
	progress.Debug(t.o.Progress, "%s: %s after %v", what, resp.Status, took)
	if put, ok := req.Context().Value(putKey{}).(*putAnswer); ok {
		put.note(req, resp)
	}
	return resp, nil
}

// exchange sends a request, counts it and enforces its limits.
func (t *wire) exchange(req *http.Request) (*http.Response, error) {
	count := t.o.Meter.of(req.URL.Host)
	count.requests.Add(1)
	w := &watch{host: req.URL.Host, time: t.o.Stall}
	w.ctx, w.cancel = context.WithCancelCause(req.Context())
	w.timer = time.AfterFunc(w.time, w.stall)
	sent := req.Clone(w.ctx)
	if req.Body != nil && req.Body != http.NoBody {
		sent.Body = &sentBody{req.Body, w, &count.sent}
	}
	resp, err := t.next.RoundTrip(sent)
	if err != nil {
		err = w.cause(err)
		w.cancel(nil)
		return nil, err
	}
	most, least := longest(firstPath(req), resp.StatusCode), int64(leastBlob)
	if most > 0 {
		least = leastAnswer
	}
	w.answer(least)
	resp.Body = &answerBody{resp.Body, w, &count.received, most, most}
	return resp, nil
}

// firstPath returns the path of the first request to a registry, before redirects.
func firstPath(req *http.Request) string { return append(before(req), req)[0].URL.Path }

// The maximum size of answers, in bytes.
const (
	maxErrorAnswer = 60 << 10 // go-containerregistry reads at most 64 KiB
	// maxList is one page of a list: a registry without pages sends all tags in it.
	maxList = 64 << 20
)

// longest returns the maximum length in bytes of the answer to a request for a path, 0 for a blob, whose length is
// in its manifest.
func longest(path string, status int) int64 {
	switch {
	case status >= http.StatusMultipleChoices:
		return maxErrorAnswer
	case strings.HasSuffix(path, "/tags/list"), strings.HasSuffix(path, "/_catalog"):
		return maxList
	case strings.Contains(path, "/blobs/"):
		return 0
	}
	return blob.MaxManifest
}

// sentBody is the body to send: a read of it is our own time, the time between two reads that of the other side.
type sentBody struct {
	io.ReadCloser
	w *watch
	n *atomic.Int64
}

func (s *sentBody) Read(p []byte) (int, error) {
	s.w.sending(false)
	defer s.w.sending(true)
	n, err := s.ReadCloser.Read(p)
	s.n.Add(int64(n))
	return n, err
}

// answerBody is a received body: a read of it is the other side's time. It returns an error if it is longer than
// most, unless that is 0. Its errors name the host: "unexpected EOF" alone does not help.
type answerBody struct {
	io.ReadCloser
	w          *watch
	n          *atomic.Int64
	left, most int64 // bytes
}

func (b *answerBody) Read(p []byte) (int, error) {
	if b.most > 0 {
		p = p[:min(int64(len(p)), b.left+1)]
	}
	b.w.begin()
	n, err := b.ReadCloser.Read(p)
	b.w.end(n)
	b.n.Add(int64(n))
	if err != nil && err != io.EOF {
		if stall := (*stalled)(nil); errors.As(b.w.cause(err), &stall) {
			return n, stall
		}
		return n, fmt.Errorf("registry %s: the connection broke: %w", b.w.host, err)
	}
	b.left -= int64(n)
	switch {
	case b.most == 0 || b.left >= 0:
		return n, err
	case b.most == maxErrorAnswer: // its beginning is sufficient
		return n - 1, io.EOF
	}
	b.Close() // go-containerregistry does not always close it
	return n - 1, hinterr.With(hinterr.Damaged("the registry's answer: more than %d bytes", b.most), misconfigured)
}

func (b *answerBody) Close() error {
	b.w.timer.Stop()
	err := b.ReadCloser.Close()
	b.w.cancel(nil)
	return err
}

// The minimum progress of an answer, in bytes per second, averaged over Options.Stall.
const (
	leastBlob   = 512     // of a blob, whose download resumes
	leastAnswer = 4 << 10 // of an answer in memory: a manifest, a token, a list
)

// stalled is the error of a request that watch ended. It is temporary.
type stalled struct {
	host string
	time time.Duration
	got  int64 // bytes in that time
}

func (s *stalled) Error() string {
	if s.got > 0 {
		return fmt.Sprintf("registry %s: only %d bytes in %v", s.host, s.got, s.time)
	}
	return fmt.Sprintf("registry %s: no progress for %v", s.host, s.time)
}

func (s *stalled) Hint() string {
	return "the registry or the connection to it hangs: try again, or use a longer --stall-timeout"
}

// watch is the clock of one request. It runs during the other side's turn, and ends the request if the other side
// does not accept more data, does not answer, stops in the middle of its answer, or sends less than the minimum. A
// request with progress has no time limit, as layers have gigabytes.
type watch struct {
	host   string
	time   time.Duration // without progress
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu sync.Mutex
	// answered reports that the rest of the request, if any, does not matter.
	answered bool
	// For the answer: the time left in which at least least bytes must come, the number of bytes so far, and the
	// start of the clock.
	left       time.Duration
	least, got int64
	since      time.Time
}

// sending sets whose turn it is while the body is sent.
func (w *watch) sending(theirs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.answered:
	case theirs:
		w.timer.Reset(w.time)
	default:
		w.timer.Stop()
	}
}

// answer ends the request's body; perSecond is the minimum progress of its answer.
func (w *watch) answer(perSecond int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = true
	w.timer.Stop()
	w.left, w.least = w.time, max(1, int64(w.time.Seconds()*float64(perSecond)))
}

// begin starts the clock of the answer, end stops it after n more bytes.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Now()
	w.timer.Reset(w.left)
}

func (w *watch) end(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.left -= time.Since(w.since)
	if w.got += int64(n); w.got >= w.least {
		w.left, w.got = w.time, 0
	}
}

func (w *watch) stall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel(&stalled{w.host, w.time, w.got})
}

// cause returns the clock's error instead of err if the clock caused it.
func (w *watch) cause(err error) error {
	if s, ok := context.Cause(w.ctx).(*stalled); ok {
		return s
	}
	return err
}
