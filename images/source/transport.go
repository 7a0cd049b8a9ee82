// Requests to registries: what go-containerregistry's own transport does not do. It repeats a request after a
// temporary answer, with the pause that the registry requests (Retry-After); it ends a request without progress; it
// allows plain HTTP only on this machine; it uses the certificates of a host.

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"vfix.dev/vfix/internal/progress"
)

// Limits on repeated requests.
const (
	maxTries = 4               // of a request, and of a download without progress
	maxPause = 5 * time.Minute // that a registry may request; a longer wait is left to the user
)

// temporaryStatus are the answers that may differ the next time, as in go-containerregistry (remote/options.go,
// defaultRetryStatusCodes).
var temporaryStatus = map[int]bool{
	http.StatusRequestTimeout: true, http.StatusTooManyRequests: true, http.StatusInternalServerError: true,
	http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
	499: true, // nginx: the client closed the request
	522: true, // Cloudflare: connection timed out
}

// roundTripper is the transport of one command.
type roundTripper struct {
	o    Options // without Net
	mu   sync.Mutex
	host map[string]*http.Transport
}

// errPlainHTTP refuses plain HTTP, which go-containerregistry tries for private addresses.
var errPlainHTTP = errors.New("plain HTTP is not allowed: others on the network can read and change it")

func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !t.o.Insecure && !isLoopback(req.URL.Hostname()) {
		return nil, errPlainHTTP
	}
	next, err := t.of(req.URL.Host)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		resp, err := t.watched(next, req)
		again := req.Body == nil || req.GetBody != nil
		var pause time.Duration
		switch {
		case err == nil && !temporaryStatus[resp.StatusCode]:
			return resp, nil
		case err == nil:
			pause = retryAfter(resp)
		case req.Body != nil || !isTemporary(err): // go-containerregistry repeats an upload that breaks
			again = false
		}
		pause = max(pause, t.o.Pause<<(try-1))
		if !again || try == maxTries || pause > maxPause {
			return resp, err
		}
		why := fmt.Sprint(err)
		if err == nil {
			why = fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
			io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection is used again
			resp.Body.Close()
		}
		progress.Note(t.o.Progress, "registry %s: %s: next try in %v", req.URL.Host, why, pause)
		if err := sleep(req.Context(), pause); err != nil {
			return nil, err
		}
		if req.GetBody != nil {
			req = req.Clone(req.Context())
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retryAfter is the pause that an answer requests, in seconds or by an HTTP date (RFC 9110, 10.2.3); 0 for none.
func retryAfter(resp *http.Response) time.Duration {
	text := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(n) * time.Second
	}
	t, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return time.Until(t)
}

// isTemporary reports whether a connection that broke may work the next time. A registry that does not answer is
// asked once: its time limit has passed already.
func isTemporary(err error) bool {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.EPIPE, syscall.ECONNRESET, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsTemporary
}

// isLoopback reports whether a host name or address is this machine.
func isLoopback(host string) bool {
	ip, _ := netip.ParseAddr(host) // a name has none
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip.Unmap().IsLoopback()
}

// maxRedirects is the limit of net/http.
const maxRedirects = 10

// checkRedirect refuses a redirect by which a public registry could use this machine's access to its own network, as
// go-containerregistry does. Credentials are only sent to the registry itself.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from, to := via[0].URL.Hostname(), req.URL.Hostname()
	switch {
	case len(via) >= maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case from != to && isPrivate(to) && !isPrivate(from):
		return fmt.Errorf("redirected to %s, a private address: not followed", to)
	}
	return nil
}

// isPrivate reports whether a host is an address of a private network, this machine or its link, which has the
// metadata services of clouds.
func isPrivate(host string) bool {
	ip, _ := netip.ParseAddr(host) // a name has none
	ip = ip.Unmap()
	return isLoopback(host) || ip.IsPrivate() || ip.IsLinkLocalUnicast()
}

// stalled is the error of a request that ended without progress.
type stalled struct{ limit time.Duration }

func (s *stalled) Error() string { return fmt.Sprintf("no progress for %v", s.limit) }

// Hint implements hinterr.Hinted.
func (s *stalled) Hint() string {
	return "the registry or the connection to it hangs: try again"
}

// leastProgress is how many bytes must pass within the time limit.
const leastProgress = 4 << 10

// uploadFactor is how many times the limit a registry may take for its answer to an upload: it has to store the blob
// and hash it first.
const uploadFactor = 10

// watch ends a request whose other side does nothing: it does not take more data, does not answer, or sends less than
// leastProgress within the limit. A request with progress has no time limit, as layers have gigabytes.
type watch struct {
	io.ReadCloser // the body of the answer
	limit, left   time.Duration
	got           int
	timer         *time.Timer
	ctx           context.Context
	cancel        context.CancelCauseFunc
}

// watched sends a request under a watch.
func (t *roundTripper) watched(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	w := &watch{limit: t.o.Stall, left: t.o.Stall}
	w.ctx, w.cancel = context.WithCancelCause(req.Context())
	first := w.limit
	if req.Body != nil {
		first *= uploadFactor
	}
	w.timer = time.AfterFunc(first, func() { w.cancel(&stalled{first}) })
	sent := req.Clone(w.ctx)
	if req.Body != nil {
		sent.Body = &sentBody{req.Body, w.timer, first}
	}
	begin := time.Now()
	resp, err := next.RoundTrip(sent)
	w.timer.Stop()
	// Without possible secrets: headers, the user, the query.
	progress.Debug(t.o.Progress, "%s %s://%s%s: %v after %v", req.Method, req.URL.Scheme, req.URL.Host, req.URL.Path, statusOf(resp, err), time.Since(begin).Round(time.Millisecond))
	if err != nil {
		err = w.cause(err)
		w.cancel(nil)
		return nil, err
	}
	w.timer = time.AfterFunc(w.limit, func() { w.cancel(&stalled{w.limit}) })
	w.timer.Stop()
	w.ReadCloser, resp.Body = resp.Body, w
	return resp, nil
}

func statusOf(resp *http.Response, err error) any {
	if err != nil {
		return err
	}
	return resp.Status
}

// Read reads the answer. The clock runs only during the read: what the caller does in between takes its own time.
func (w *watch) Read(p []byte) (int, error) {
	begin := time.Now()
	w.timer.Reset(w.left)
	n, err := w.ReadCloser.Read(p)
	w.timer.Stop()
	w.left -= time.Since(begin)
	if w.got += n; w.got >= leastProgress {
		w.got, w.left = 0, w.limit
	}
	if err != nil && err != io.EOF {
		err = w.cause(err)
	}
	return n, err
}

func (w *watch) Close() error {
	w.timer.Stop()
	defer w.cancel(nil)
	return w.ReadCloser.Close()
}

// cause returns the watch's error instead of err if the watch caused it.
func (w *watch) cause(err error) error {
	var s *stalled
	if errors.As(context.Cause(w.ctx), &s) {
		return s
	}
	return err
}

// sentBody is the body of a request: each part of it that the other side takes is progress.
type sentBody struct {
	io.ReadCloser
	timer *time.Timer
	limit time.Duration
}

func (s *sentBody) Read(p []byte) (int, error) {
	s.timer.Stop()
	defer s.timer.Reset(s.limit)
	return s.ReadCloser.Read(p)
}

// of returns the transport of a host, written as in a URL.
func (t *roundTripper) of(host string) (*http.Transport, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.host[host]; h != nil {
		return h, nil
	}
	c, err := hostTLS(certDirs(), host)
	if err != nil {
		return nil, err
	}
	const dialTime, handshakeTime, idleTime, idleConns = 30 * time.Second, 10 * time.Second, 90 * time.Second, 16
	c.InsecureSkipVerify = t.o.Insecure
	h := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext,
		ForceAttemptHTTP2: true, TLSClientConfig: c, TLSHandshakeTimeout: handshakeTime,
		IdleConnTimeout: idleTime, MaxIdleConnsPerHost: idleConns, ExpectContinueTimeout: time.Second,
	}
	t.host[host] = h
	return h, nil
}
