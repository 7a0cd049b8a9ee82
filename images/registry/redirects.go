// Following a registry's redirects: to its storage, but not into a network that only this machine reaches.

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

// maxRedirects is that of net/http.
const maxRedirects = 10

// redirects follows the redirects of reads. go-containerregistry's clients, which are above, would refuse one from a
// registry at a private address to storage at another; here one rule serves manifests, blobs, tokens and lists, and
// credentials stay with the host and port that they were meant for.
type redirects struct{ next http.RoundTripper }

// Writes are redirected by net/http's client, which asks one of go-containerregistry's functions that allows any number.
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

// before gives the requests that were redirected to req, the first one first.
func before(req *http.Request) []*http.Request {
	var via []*http.Request
	for r := req; r.Response != nil && r.Response.Request != nil; r = r.Response.Request {
		via = append(via, r.Response.Request)
	}
	slices.Reverse(via)
	return via
}

// checkRedirect refuses redirects by which a registry could misuse this machine's access: to this machine
// or its link, where the metadata services of clouds are (169.254.169.254), and from a public address into a private network.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return hinterr.With(fmt.Errorf("more than %d redirects", maxRedirects), misconfigured)
	}
	return mayLead(req.Context(), via[0].URL, req.URL)
}

// mayLead decides whether the host of "from" may redirect vfix to the host of "to".
func mayLead(ctx context.Context, from, to *url.URL) error {
	switch {
	case from.Hostname() == to.Hostname():
	case inward(ctx, to) && !inward(ctx, from):
		return fmt.Errorf("redirected to %s, an address of this machine or its link: not followed", to.Hostname())
	case privateAddress(to.Hostname()) && public(ctx, from):
		return hinterr.With(fmt.Errorf("redirected to %s, a private address, by %s, which is a public host: not followed", to.Hostname(), from.Hostname()),
			"whoever runs the registry can give its storage a name; or pull the image with its engine, and give vfix docker-daemon:NAME")
	}
	return nil
}

// inward reports whether a host is what every machine has to itself, by its address or by one that its name has here:
// clouds give their metadata service a name as well.
func inward(ctx context.Context, at *url.URL) bool {
	return isLoopback(at.Hostname()) || slices.ContainsFunc(addresses(ctx, at), inwardIP)
}

func inwardIP(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()
}

// addresses are the address that a host is written as, or those that its name has here; none if a proxy looks it up.
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

// sharedNetwork is carrier-grade NAT's (RFC 6598).
var sharedNetwork = netip.MustParsePrefix("100.64.0.0/10")

// privateAddress reports whether a host is written as an address of a private network (RFC 1918, 4193, 6598).
func privateAddress(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && privateIP(ip)
}

func privateIP(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsPrivate() || sharedNetwork.Contains(ip) || inwardIP(ip)
}

// public reports whether a host is known to be in no private network: an address of it is public.
func public(ctx context.Context, at *url.URL) bool {
	return !isLoopback(at.Hostname()) && slices.ContainsFunc(addresses(ctx, at), func(ip netip.Addr) bool { return !privateIP(ip) })
}

// A registry names the address of its tokens (the realm). go-containerregistry refuses an address of a private network there, also
// from a registry that is in one itself. Such a realm is given to it as a path of the registry's own, and brought back
// when it is asked.

// realmPath begins the path that stands for a realm elsewhere; the realm's host and path follow.
const realmPath = "/.vfix-realm/"

// localRealm words the challenge of a registry so that go-containerregistry accepts a realm which mayLead allows.
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

// realmRequest is the request to the realm that a path of the registry stands for; any other request is req itself.
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

// checkRealm refuses such a path if it does not come from localRealm: a registry could redirect to it.
func checkRealm(req *http.Request) error {
	if strings.HasPrefix(req.URL.Path, realmPath) {
		if req.Response != nil {
			return errRealm
		}
		return mayLead(req.Context(), req.URL, realmRequest(req).URL)
	}
	return nil
}
