// The login that a registry requires, requested once and not for each of its repositories.

package registry

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// pings caches the answer to GET /v2/, with which each login of go-containerregistry begins (its transport.Ping):
// this saves two requests for each image of a list.
type pings struct {
	next  http.RoundTripper
	known sync.Map // of *http.Response without body, by URL
}

func (p *pings) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || req.URL.Path != "/v2/" || req.Header.Get("Authorization") != "" {
		return p.next.RoundTrip(req)
	}
	if known, ok := p.known.Load(req.URL.String()); ok {
		return answer(known.(*http.Response), req), nil
	}
	resp, err := p.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	resp.Body.Close()
	localRealm(resp)
	p.known.Store(req.URL.String(), resp)
	return answer(resp, req), nil
}

// answer returns a cached response as one to req, without a body, which logins do not read.
func answer(known *http.Response, req *http.Request) *http.Response {
	resp := *known
	resp.Header, resp.Request = known.Header.Clone(), req
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader("")), 0
	return &resp
}
