// Sending a request again: after which errors, how often, and after which pause.

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

// RetryPolicy is how long and how often a registry is asked again.
type RetryPolicy struct {
	Tries int           // in all, the first included
	First time.Duration // the pause after the first; each is twice the one before
	// Most is the longest time to wait because the registry asks for it (Retry-After).
	Most time.Duration
}

// DefaultRetry has pauses of 1, 2, 4 and 8 s: an instance of a registry is replaced in that
// time. Registries with rate limits count requests by the minute, or by hours: such a wait is
// left to the user.
var DefaultRetry = RetryPolicy{Tries: 5, First: time.Second, Most: 5 * time.Minute}

// temporaryStatus are the answers that may differ the next time: those of
// go-containerregistry (remote/options.go, defaultRetryStatusCodes).
var temporaryStatus = map[int]bool{
	http.StatusRequestTimeout: true, http.StatusTooManyRequests: true,
	http.StatusInternalServerError: true, http.StatusBadGateway: true,
	http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
	499: true, // nginx: the client closed the request
	522: true, // Cloudflare: connection timed out
}

// notEstablished is what net/http says of a connection that ended before the first request of HTTP/2 was sent
// (errClientConnNotEstablished, which is not exported).
const notEstablished = "http2: client conn could not be established"

// closedIdle is what net/http says where a server closed a connection just as a request was sent over it (errServerClosedIdle,
// which is not exported): it sends the request again itself only if that is harmless, which it cannot know of a POST.
const closedIdle = "http: server closed idle connection"

// isTemporary reports whether an error of the network may be gone the next time.
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

// retrier sends a request again where the answer or the error looks temporary. One whose
// body cannot be had again is sent once.
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
		// https is tried before http with a registry on this machine; go-containerregistry
		// gives up the one of the two that loses, and refusal is not news there.
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

// inMemory reads the whole of a good answer that is not a blob: a connection that breaks within it is a try that failed.
// The reader of blobs resumes them.
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

// again counts a further try, reports it and waits for it: why, and from is what follows the pause. more is false if
// there must be none, and the error that of a context that ended while it waited.
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

// Pause says how long to wait after a try, the first being 1; ok is false if there must
// be no other. The registry's Retry-After counts, whatever the number of seconds or the
// date in it, as long as it is below the policy's bound.
func (p RetryPolicy) Pause(try int, resp *http.Response) (wait time.Duration, ok bool) {
	if try >= p.Tries {
		return 0, false
	}
	wait = p.First << (try - 1)
	wait += time.Duration(rand.Int64N(int64(wait)/4 + 1)) // so that many waiting clients do not come back together
	if resp == nil {
		return wait, true
	}
	asked, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now())
	if !ok {
		return wait, true
	}
	return max(asked, p.First), asked <= p.Most
}

// retryAfter reads the header: seconds, or an HTTP date (RFC 9110, 10.2.3).
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

// maxDrained is how much of an unwanted answer is read, so that its connection can
// be used again, in bytes.
const maxDrained = 64 << 10

func drain(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, maxDrained)
	resp.Body.Close()
}
