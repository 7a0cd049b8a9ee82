// Ending requests that make no progress.

package registry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// watcher ends requests that make no progress: a registry that takes no more of what is
// sent, does not answer, or stops in the middle of its answer. How long a request lasts
// that does make progress is nobody's business: layers have gigabytes.
type watcher struct {
	next http.RoundTripper
	time time.Duration // without progress
}

// stalled is the error of a request that was ended. It is temporary.
type stalled struct {
	host string
	time time.Duration
}

func (s *stalled) Error() string {
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
}

// begin lets the other side have its time anew, end stops the clock.
func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Reset(w.time)
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
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

// answer ends the first part of a request.
func (w *watch) answer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = true
	w.timer.Stop()
}

// cause replaces an error by that of the clock, where that is the reason for it.
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
	w.timer = time.AfterFunc(t.time, func() { w.cancel(&stalled{host, t.time}) })
	req = req.Clone(w.ctx)
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = &watchedSend{req.Body, w}
	}
	resp, err := t.next.RoundTrip(req)
	w.answer()
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
	b.w.end()
	if err == nil || err == io.EOF {
		return n, err
	}
	if stall := b.w.cause(err); stall != err {
		return n, stall
	}
	return n, fmt.Errorf("registry %s: the connection broke: %w", b.host, err)
}

func (b *watchedBody) Close() error {
	b.w.end()
	err := b.ReadCloser.Close()
	b.w.cancel(nil)
	return err
}
