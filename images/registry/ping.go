// The login that a registry requires, requested once and not for each of its repositories.

package registry

import (
	"net/http"
	"sync"
)

// pings caches the answer to GET /v2/, with which each login of go-containerregistry begins (its transport.Ping):
// this saves two requests for each image of a list.
type pings struct {
	next  http.RoundTripper
	known sync.Map // of *http.Response without body, by URL
}

func (p *pings) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path != "/v2/" {
		return p.next.RoundTrip(req)
	}
	known, ok := p.known.Load(req.URL.String())
	if !ok {
		resp, err := p.next.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized {
			return resp, err
		}
		resp.Body.Close()
		localRealm(resp)
		resp.Body, resp.Request = http.NoBody, req // logins do not read the body
		p.known.Store(req.URL.String(), resp)
		known = resp
	}
	resp := *known.(*http.Response)
	return &resp, nil
}
