// Requests as lines for who looks for a fault.

package registry

import (
	"net/http"
	"time"

	"vfix.dev/vfix/internal/progress"
)

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
