// Connections to registries: what go-containerregistry's transport lacks. A connection on which nothing moves ends, a
// pause that a registry requests (Retry-After) is kept, plain HTTP is for this machine only, and each host has its own
// certificates.

package source

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"vfix.dev/vfix/internal/progress"
)

// Limits on repeated requests.
const (
	maxTries = 4               // of a request, and of a download without progress
	maxPause = 5 * time.Minute // that a registry may request; a longer wait is left to the user
)

// errPlainHTTP refuses plain HTTP, which go-containerregistry tries for private addresses; errInward a redirect by which
// a public registry could use this machine's access to its own services, its network and the metadata services of clouds.
var (
	errPlainHTTP = errors.New("plain HTTP is not allowed: others on the network can read and change it")
	errInward    = errors.New("redirected to a private address: not followed")
)

// RoundTrip sends a request to a registry, once.
func (n *Network) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Hostname()
	switch from := req.Response; {
	case from != nil && isPrivate(host) && !isPrivate(from.Request.URL.Hostname()):
		return nil, errInward
	case req.URL.Scheme != "https" && !n.o.Insecure && !isLoopback(host):
		return nil, errPlainHTTP
	}
	next, err := n.of(req.URL.Host)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	resp, err := next.RoundTrip(req)
	result := any(err)
	if err == nil {
		result = resp.Status
	}
	// Without possible secrets: headers, the user, the query.
	progress.Debug(n.o.Progress, "%s %s://%s%s: %v after %v", req.Method, req.URL.Scheme, req.URL.Host, req.URL.Path, result, time.Since(begin).Round(time.Millisecond))
	if err != nil {
		return nil, err
	}
	if pause := retryAfter(resp); pause > 0 && pause <= maxPause {
		progress.Note(n.o.Progress, "registry %s: %s: it asks to wait %v", req.URL.Host, resp.Status, pause.Round(time.Second))
		err = sleep(req.Context(), pause)
	}
	return resp, err
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

// isTemporary reports whether a request that failed may work the next time. A registry that does not answer is asked
// once: its time limit has passed already.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	var n net.Error
	switch {
	case errors.As(err, &n) && n.Timeout():
		return false
	case errors.As(err, &t) && t.Temporary():
		return true
	}
	broken := []error{io.EOF, io.ErrUnexpectedEOF, syscall.EPIPE, syscall.ECONNRESET, net.ErrClosed}
	return slices.ContainsFunc(broken, func(e error) bool { return errors.Is(err, e) })
}

// isLoopback reports whether a host name or address is this machine.
func isLoopback(host string) bool {
	ip, _ := netip.ParseAddr(host) // a name has none
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip.Unmap().IsLoopback()
}

// isPrivate reports whether a host name or address is this machine or in its own network.
func isPrivate(host string) bool {
	ip, _ := netip.ParseAddr(host)
	ip = ip.Unmap()
	return isLoopback(host) || ip.IsPrivate() || ip.IsLinkLocalUnicast()
}

// of returns the transport of a host. It speaks HTTP/1.1 alone: a download has its connection for itself, so that
// silence on a connection means a stall.
func (n *Network) of(host string) (*http.Transport, error) {
	if h, ok := n.hosts.Load(host); ok {
		return h.(*http.Transport), nil
	}
	c, err := hostTLS(host)
	if err != nil {
		return nil, err
	}
	const dialTime, handshakeTime, idleConns = 30 * time.Second, 10 * time.Second, 16
	c.InsecureSkipVerify = n.o.Insecure
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, network, addr)
		return &watchedConn{Conn: conn, limit: n.o.Stall}, err
	}
	h, _ := n.hosts.LoadOrStore(host, &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSClientConfig: c, TLSHandshakeTimeout: handshakeTime,
		MaxIdleConnsPerHost: idleConns, ExpectContinueTimeout: time.Second,
	})
	return h.(*http.Transport), nil
}

const (
	// upload is more bytes than a request without a blob has.
	upload = 64 << 10
	// uploadFactor is how many times the limit a registry may take for its answer to an upload: it has to store the
	// blob and hash it first.
	uploadFactor = 10
)

// watchedConn is a connection that ends with os.ErrDeadlineExceeded if its other side neither sends nor takes anything
// for the limit. There is no other time limit, as layers have gigabytes; what happens between two reads takes its own
// time.
type watchedConn struct {
	net.Conn
	limit time.Duration
	sent  atomic.Int64 // bytes since the last answer
}

func (c *watchedConn) Read(p []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(c.limit))
	n, err := c.Conn.Read(p)
	c.sent.Store(0)
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	limit := c.limit
	if c.sent.Add(int64(len(p))) > upload {
		limit *= uploadFactor
	}
	c.SetDeadline(time.Now().Add(limit)) // also of the Read that waits for the answer
	return c.Conn.Write(p)
}
