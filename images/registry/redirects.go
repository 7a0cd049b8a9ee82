// Redirects of a registry are followed to its storage, but not into a network that only this machine reaches.

package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

// maxRedirects is the limit of net/http.
const maxRedirects = 10

// redirects follows the redirects of reads. go-containerregistry's clients, which use it, would refuse a redirect
// from a registry at a private address to storage at another; here one rule covers manifests, blobs, tokens and
// lists, and credentials are sent only to their host and port.
type redirects struct{ next http.RoundTripper }

// RoundTrip sends a request. net/http's client follows redirects of writes, with a function of
// go-containerregistry that allows any number.
func (t redirects) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		err := checkRealm(req)
		if via := before(req); err == nil && len(via) > 0 {
			err = checkRedirect(req, via)
		}
		if err != nil {
			return refuse(req, err)
		}
		resp, err := t.next.RoundTrip(realmRequest(req))
		if err != nil || req.Method != http.MethodGet && req.Method != http.MethodHead {
			return resp, err
		}
		switch resp.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return resp, nil
		}
		to, err := resp.Location()
		drain(resp)
		resp.Request = req
		if err != nil {
			return nil, hinterr.With(fmt.Errorf("redirect: %w", err), misconfigured)
		}
		next := req.Clone(req.Context())
		next.URL, next.Host, next.Response = to, "", resp
		if first := append(before(next), next)[0]; first.URL.Host != to.Host {
			for _, secret := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
				next.Header.Del(secret)
			}
		}
		req = next
	}
}

// before returns the requests that were redirected to req, first one first.
func before(req *http.Request) []*http.Request {
	var via []*http.Request
	for r := req; r.Response != nil && r.Response.Request != nil; r = r.Response.Request {
		via = append(via, r.Response.Request)
	}
	slices.Reverse(via)
	return via
}

// checkRedirect refuses redirects by which a registry could misuse this machine's access: to this machine or its
// link, which has the metadata services of clouds (169.254.169.254), and from a public address into a private
// network.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return hinterr.With(fmt.Errorf("more than %d redirects", maxRedirects), misconfigured)
	}
	return mayLead(req.Context(), via[0].URL, req.URL)
}

// mayLead decides whether the host of from may redirect vfix to the host of to.
func mayLead(ctx context.Context, from, to *url.URL) error {
	switch {
	case from.Hostname() == to.Hostname():
	case inward(ctx, to) && !inward(ctx, from):
		return fmt.Errorf("redirected to %s, an address of this machine or its link: not followed", to.Hostname())
	case privateAddress(to.Hostname()) && public(ctx, from):
		return hinterr.With(fmt.Errorf("redirected to %s, a private address, by %s, which is a public host: not followed", to.Hostname(), from.Hostname()),
			"the registry's operator can give its storage a name; or pull the image with an engine, and use docker-daemon:NAME")
	}
	return nil
}

// inward reports whether a host is local to each machine or its link, by its address or by one that its name has
// here: clouds also have a name for their metadata service.
func inward(ctx context.Context, at *url.URL) bool {
	return isLoopback(at.Hostname()) || slices.ContainsFunc(addresses(ctx, at), inwardIP)
}

func inwardIP(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()
}

// addresses returns the host's address, or the addresses that its name has here; none if a proxy looks it up.
func addresses(ctx context.Context, at *url.URL) []netip.Addr {
	if ip, err := netip.ParseAddr(at.Hostname()); err == nil {
		return []netip.Addr{ip}
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: at}); proxy != nil || err != nil {
		return nil
	}
	all, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", at.Hostname())
	return all
}

// isLoopback reports whether a host name or address is this machine.
func isLoopback(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761, 6.3
		return true
	}
	ip, _ := netip.ParseAddr(host) // a name has none
	return ip.Unmap().IsLoopback()
}

// sharedNetwork is the network of carrier-grade NAT (RFC 6598).
var sharedNetwork = netip.MustParsePrefix("100.64.0.0/10")

// privateAddress reports whether a host is written as an address of a private network (RFC 1918, 4193, 6598).
func privateAddress(host string) bool {
	ip, _ := netip.ParseAddr(host) // a name has none
	return privateIP(ip)
}

func privateIP(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsPrivate() || sharedNetwork.Contains(ip) || inwardIP(ip)
}

// public reports whether a host is certainly not in a private network: it has a public address.
func public(ctx context.Context, at *url.URL) bool {
	return slices.ContainsFunc(addresses(ctx, at), func(ip netip.Addr) bool { return !privateIP(ip) })
}

// A registry sends the address for its tokens (the realm). go-containerregistry refuses a realm with an address of
// a private network, even from a registry in that network. Therefore vfix presents such a realm as a path of the
// registry, and translates it back in the request.

// realmPath is the prefix of the path for a realm elsewhere; the realm's host and path follow.
const realmPath = "/.vfix-realm/"

// localRealm changes the challenge of a registry so that go-containerregistry accepts a realm which mayLead
// allows.
func localRealm(resp *http.Response) {
	at := resp.Request.URL
	for n, text := range resp.Header["Www-Authenticate"] {
		const key = `realm="`
		_, rest, _ := strings.Cut(text, key)
		realm, _, _ := strings.Cut(rest, `"`)
		u, err := url.Parse(realm)
		if err != nil || u.Host == at.Host || !privateAddress(u.Hostname()) || mayLead(resp.Request.Context(), at, u) != nil {
			continue
		}
		here := *u
		here.Host, here.Path, here.RawPath = at.Host, realmPath+u.Host+u.Path, ""
		resp.Header["Www-Authenticate"][n] = strings.Replace(text, key+realm+`"`, key+here.String()+`"`, 1)
	}
}

// realmRequest returns the request to the realm for such a path; for other paths, req itself.
func realmRequest(req *http.Request) *http.Request {
	rest, ok := strings.CutPrefix(req.URL.Path, realmPath)
	if !ok {
		return req
	}
	host, path, _ := strings.Cut(rest, "/")
	there := req.Clone(req.Context())
	there.URL.Host, there.URL.Path, there.URL.RawPath, there.Host = host, "/"+path, "", ""
	return there
}

var errRealm = errors.New("a registry's redirect into a path of vfix's own: not followed")

// checkRealm refuses a redirect to such a path, which only localRealm may make.
func checkRealm(req *http.Request) error {
	if strings.HasPrefix(req.URL.Path, realmPath) {
		if req.Response != nil {
			return errRealm
		}
		return mayLead(req.Context(), req.URL, realmRequest(req).URL)
	}
	return nil
}
