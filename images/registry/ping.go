// The login that a registry requires, asked once and not for each of its repositories.

package registry

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// pings remembers the answer to GET /v2/, which begins each login of go-containerregistry (its
// transport.Ping): an image of a list would else cost two more requests.
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

// answer is a remembered response as one to req; a login does not look at the body.
func answer(known *http.Response, req *http.Request) *http.Response {
	resp := *known
	resp.Header, resp.Request = known.Header.Clone(), req
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader("")), 0
	return &resp
}
