// The requests of a command to registries: how much came and went, how often it may ask, and its requests as lines.

package registry

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"vfix.dev/vfix/internal/progress"
)

// Count is what one host was asked.
type Count struct {
	Requests, Retries int64
	Received, Sent    int64 // bytes, of bodies
}

// Meter counts by host. Its methods may be called from several goroutines at once; a nil one counts
// nothing.
type Meter struct{ hosts sync.Map } // of *counter

type counter struct{ requests, retries, received, sent atomic.Int64 }

func (m *Meter) of(host string) *counter {
	if m == nil {
		return &counter{}
	}
	if c, ok := m.hosts.Load(host); ok {
		return c.(*counter)
	}
	c, _ := m.hosts.LoadOrStore(host, &counter{})
	return c.(*counter)
}

// ByHost is what was counted until now.
func (m *Meter) ByHost() map[string]Count {
	all := map[string]Count{}
	if m == nil {
		return all
	}
	m.hosts.Range(func(host, c any) bool {
		n := c.(*counter)
		all[host.(string)] = Count{n.requests.Load(), n.retries.Load(), n.received.Load(), n.sent.Load()}
		return true
	})
	return all
}

// Total is the sum of all hosts.
func (m *Meter) Total() Count {
	var sum Count
	for _, c := range m.ByHost() {
		sum.Requests, sum.Retries = sum.Requests+c.Requests, sum.Retries+c.Retries
		sum.Received, sum.Sent = sum.Received+c.Received, sum.Sent+c.Sent
	}
	return sum
}

// metered counts what goes through it.
type metered struct {
	next http.RoundTripper
	m    *Meter
}

func (t metered) RoundTrip(req *http.Request) (*http.Response, error) {
	c := t.m.of(req.URL.Host)
	c.requests.Add(1)
	if req.Body != nil && req.Body != http.NoBody {
		req = req.Clone(req.Context())
		req.Body = countedBody{req.Body, &c.sent}
	}
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		resp.Body = countedBody{resp.Body, &c.received}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// Asking a registry no more often than it may be asked.

// limited lets through so many requests a second to each host.
type limited struct {
	next      http.RoundTripper
	perSecond float64
	hosts     sync.Map // of *rate.Limiter
}

func (t *limited) RoundTrip(req *http.Request) (*http.Response, error) {
	l, ok := t.hosts.Load(req.URL.Host)
	if !ok {
		l, _ = t.hosts.LoadOrStore(req.URL.Host, rate.NewLimiter(rate.Limit(t.perSecond), 1))
	}
	if err := l.(*rate.Limiter).Wait(req.Context()); err != nil {
		return nil, err
	}
	return t.next.RoundTrip(req)
}

// Requests as lines for who looks for a fault.

// traced reports each request and its answer, without what may be a secret: headers, the user, the query.
type traced struct {
	next     http.RoundTripper
	progress progress.Reporter
}

func (t traced) RoundTrip(req *http.Request) (*http.Response, error) {
	begin := time.Now()
	resp, err := t.next.RoundTrip(req)
	what, took := req.Method+" "+req.URL.Scheme+"://"+req.URL.Host+req.URL.Path, time.Since(begin).Round(time.Millisecond)
	if err != nil {
		progress.Debug(t.progress, "%s: %v after %v", what, err, took)
	} else {
		progress.Debug(t.progress, "%s: %s after %v", what, resp.Status, took)
	}
	return resp, err
}
