// Ending requests that make no progress.

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// watcher ends requests that make no progress: a registry that takes no more of what is
// sent, does not answer, stops in the middle of its answer, or sends it so slowly that it might
// as well have stopped. A request that makes progress may take as long as it needs: layers have gigabytes.
type watcher struct {
	next http.RoundTripper
	time time.Duration // without progress
}

// The least progress of an answer, in bytes a second, measured over the time that a registry may make none.
const (
	leastBlob   = 512     // of a blob, whose download resumes
	leastAnswer = 4 << 10 // of what is read into memory: a manifest, a token, a list
)

// stalled is the error of a request that was ended. It is temporary.
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
	return "the registry or the way to it hangs: try again, or give it longer with --stall-timeout"
}

// watch is the clock of one request. It runs while the other side has the word.
type watch struct {
	mu     sync.Mutex
	timer  *time.Timer
	time   time.Duration
	cancel context.CancelCauseFunc
	ctx    context.Context
	// answered says that what is still sent, if anything, is of no interest any more.
	answered bool

	// Of the answer: how much of the time is left in which least bytes must come, how many came, and since when
	// the clock runs.
	left       time.Duration
	least, got int64
	since      time.Time
}

// begin starts the clock of the answer, end stops it after n bytes more.
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

// sending says whose turn it is while something is sent.
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

// answer ends the first part of a request; its answer makes progress with perSecond bytes.
func (w *watch) answer(perSecond int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = true
	w.timer.Stop()
	w.left, w.least = w.time, max(1, int64(w.time.Seconds()*float64(perSecond)))
}

// stall ends the request.
func (w *watch) stall(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel(&stalled{host, w.time, w.got})
}

// cause replaces an error by that of the clock, if that is the reason for it.
func (w *watch) cause(err error) error {
	if s, ok := context.Cause(w.ctx).(*stalled); ok && err != nil && err != io.EOF {
		return s
	}
	return err
}

func (t watcher) RoundTrip(req *http.Request) (*http.Response, error) {
	w := &watch{time: t.time}
	w.ctx, w.cancel = context.WithCancelCause(req.Context())
	host := req.URL.Host
	w.timer = time.AfterFunc(t.time, func() { w.stall(host) })
	req = req.Clone(w.ctx)
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = &watchedSend{req.Body, w}
	}
	resp, err := t.next.RoundTrip(req)
	perSecond := int64(leastBlob)
	if resp != nil && longest(asked(req), resp.StatusCode) > 0 {
		perSecond = leastAnswer
	}
	w.answer(perSecond)
	if err != nil {
		err = w.cause(err)
		w.cancel(nil)
		return nil, err
	}
	resp.Body = &watchedBody{resp.Body, w, host}
	return resp, nil
}

// watchedSend is what is sent: reading it is our own time, what is between two reads that
// of the other side.
type watchedSend struct {
	io.ReadCloser
	w *watch
}

func (s *watchedSend) Read(p []byte) (int, error) {
	s.w.sending(false)
	defer s.w.sending(true)
	return s.ReadCloser.Read(p)
}

// watchedBody is what is received: reading it is the other side's time. It names the host
// in an error: "unexpected EOF" alone helps nobody.
type watchedBody struct {
	io.ReadCloser
	w    *watch
	host string
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.w.begin()
	n, err := b.ReadCloser.Read(p)
	b.w.end(n)
	if err == nil || err == io.EOF {
		return n, err
	}
	if stall := (*stalled)(nil); errors.As(b.w.cause(err), &stall) {
		return n, stall
	}
	return n, fmt.Errorf("registry %s: the connection broke: %w", b.host, err)
}

func (b *watchedBody) Close() error {
	b.w.timer.Stop()
	err := b.ReadCloser.Close()
	b.w.cancel(nil)
	return err
}
