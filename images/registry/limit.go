// Asking a registry no more often than it may be asked.

package registry

import (
	"net/http"
	"sync"

	"golang.org/x/time/rate"
)

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
