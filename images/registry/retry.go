// Repeated requests: after which errors, how often, and after which pause.

package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/redact"
)

// RetryPolicy is how often and after which pauses a request is repeated.
type RetryPolicy struct {
	Tries int           // in all, including the first
	First time.Duration // the pause after the first try; each further pause is twice as long
	// Most is the longest wait that a registry may request (Retry-After).
	Most time.Duration
}

// DefaultRetry has pauses of 1, 2, 4 and 8 s, in which an instance of a registry is replaced. Registries with rate
// limits count requests per minute, or over hours: a wait of hours is left to the user.
var DefaultRetry = RetryPolicy{Tries: 5, First: time.Second, Most: 5 * time.Minute}

// temporaryStatus are the answers that may differ the next time, as in go-containerregistry (remote/options.go,
// defaultRetryStatusCodes).
var temporaryStatus = map[int]bool{
	http.StatusRequestTimeout: true, http.StatusTooManyRequests: true,
	http.StatusInternalServerError: true, http.StatusBadGateway: true,
	http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
	499: true, // nginx: the client closed the request
	522: true, // Cloudflare: connection timed out
}

// notEstablished is net/http's error for a connection that ended before the first request of HTTP/2 was sent
// (errClientConnNotEstablished, which is not exported).
const notEstablished = "http2: client conn could not be established"

// closedIdle is net/http's error if a server closed a connection just as a request was sent over it
// (errServerClosedIdle, which is not exported). net/http repeats only requests that are harmless, which a POST may
// not be.
const closedIdle = "http: server closed idle connection"

// isTemporary reports whether an error of the network may not occur the next time.
func isTemporary(err error) bool {
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var header tls.RecordHeaderError
	var dns *net.DNSError
	var stall *stalled
	var op *net.OpError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, errPlainHTTP),
		errors.As(err, &cert), errors.As(err, &unknown), errors.As(err, &header):
		return false
	case errors.As(err, &dns):
		return dns.IsTimeout || dns.IsTemporary
	case errors.As(err, &stall), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNREFUSED):
		return true
	case errors.As(err, &op):
		return op.Timeout()
	case strings.Contains(err.Error(), notEstablished), strings.Contains(err.Error(), closedIdle):
		return true
	}
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// retrier repeats a request if the answer or the error looks temporary. It sends a request once if its body cannot
// be read again.
type retrier struct {
	next http.RoundTripper
	o    *Options
}

func (t *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := t.next.RoundTrip(req)
		if err == nil {
			err = inMemory(resp)
		}
		if err == nil && !temporaryStatus[resp.StatusCode] {
			return resp, nil
		}
		if err != nil && !isTemporary(err) {
			return nil, err
		}
		again := req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
		// For a registry on this machine, https is tried before http; go-containerregistry drops the one that
		// fails, and a refused connection is expected there.
		if errors.Is(err, syscall.ECONNREFUSED) && isLoopback(req.URL.Hostname()) {
			again = false
		}
		if err != nil {
			resp = nil
		}
		if !again || req.Context().Err() != nil {
			return resp, err
		}
		why := fmt.Sprint(err)
		if resp != nil {
			why = fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		}
		more, waitErr := t.o.again(req.Context(), try, resp, req.URL.Host, "registry "+req.URL.Host, why, "")
		if !more {
			return resp, err
		}
		if resp != nil {
			drain(resp)
		}
		if waitErr != nil {
			return nil, waitErr
		}
		if req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			req = req.Clone(req.Context())
			req.Body = body
		}
	}
}

// inMemory reads the whole of a good answer that is not a blob, so that a connection that breaks within it is a
// failed try. The reader of blobs resumes them itself.
func inMemory(resp *http.Response) error {
	b, ok := resp.Body.(*answerBody)
	if !ok || b.most == 0 || resp.StatusCode >= http.StatusMultipleChoices {
		return nil
	}
	data, err := io.ReadAll(b)
	b.Close()
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return err
}

// again counts a further try, reports it and waits for it: why is the reason, from the text after the pause. more
// is false if there must be no other try; err is that of a context that ended during the wait.
func (o *Options) again(ctx context.Context, try int, resp *http.Response, host, what, why, from string) (more bool, err error) {
	wait, ok := o.Retry.Pause(try, resp)
	if !ok {
		return false, nil
	}
	o.Meter.of(host).retries.Add(1)
	progress.Note(o.Progress, "%s: %s: next try in %v%s", what, redact.Redact(why), wait.Round(time.Second/10), from)
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true, nil
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// Pause returns the wait after a try, the first being 1; ok is false if there must be no other try. The registry's
// Retry-After takes precedence; ok is false if it is longer than Most.
func (p RetryPolicy) Pause(try int, resp *http.Response) (wait time.Duration, ok bool) {
	if try >= p.Tries {
		return 0, false
	}
	wait = p.First << (try - 1)
	wait += time.Duration(rand.Int64N(int64(wait)/4 + 1)) // so that waiting clients do not all return at the same time
	if resp == nil {
		return wait, true
	}
	wanted, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now())
	if !ok {
		return wait, true
	}
	return max(wanted, p.First), wanted <= p.Most
}

// retryAfter parses the header: seconds, or an HTTP date (RFC 9110, 10.2.3).
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(n)*time.Second), true
	}
	t, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return max(0, t.Sub(now)), true
}

// maxDrained is how much of an unneeded answer is read so that its connection can be reused, in bytes.
const maxDrained = 64 << 10

func drain(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, maxDrained)
	resp.Body.Close()
}
