// A connection to a daemon: its address, and the version of its API.

package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/cli/cli/connhelper"

	"vfix.dev/vfix/internal/hinterr"
)

// The versions of the API that vfix knows (docker's API version history): what is older lacks calls, and
// what is newer answers as the newest one here does.
const (
	newestAPI = "1.52"
	oldestAPI = "1.40" // docker 19.03
)

// Host is one place where a daemon may listen.
type Host struct {
	URL string // unix:///…, tcp://…, ssh://…, npipe:////./pipe/…
	TLS string // directory with ca.pem, cert.pem, key.pem; "" for none
	Env bool   // TLS as DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say
}

// Client is a connection to a daemon.
type Client struct {
	Host      string // its URL
	userAgent string
	http      *http.Client
	base      url.URL // with the version
	version   string
}

// dialTime is how long a connection may take, pingTime how long a daemon may take to answer at all: podman's
// is started by its socket, and one may be behind ssh.
const (
	dialTime = 10 * time.Second
	pingTime = 30 * time.Second
)

// Connect makes a client for a host and asks the daemon there for the newest API version that both know, so
// that an old engine and podman do.
func Connect(ctx context.Context, h Host, userAgent string) (*Client, error) {
	c := &Client{Host: h.URL, userAgent: userAgent}
	if err := c.dialer(h); err != nil {
		return nil, fmt.Errorf("%s: %w", h.URL, err)
	}
	if err := c.negotiate(ctx, h.Env); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// dialer returns the function that connects to the daemon.
func (c *Client) dialer(h Host) error {
	scheme, addr, ok := strings.Cut(h.URL, "://")
	if !ok || addr == "" {
		return errors.New("not the URL of a daemon, as unix:///run/docker.sock")
	}
	t := &http.Transport{DisableCompression: true}
	c.http, c.base = &http.Client{Transport: t}, url.URL{Scheme: "http", Host: "engine"}
	d := &net.Dialer{Timeout: dialTime}
	switch scheme {
	case "unix":
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", addr) }
	case "npipe":
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialPipe(ctx, addr) }
	case "ssh":
		helper, err := connhelper.GetConnectionHelper(h.URL)
		if err != nil {
			return err
		}
		t.DialContext = helper.Dialer
	case "tcp", "http", "https":
		u, err := url.Parse("tcp://" + addr)
		if err != nil {
			return err
		}
		t.DialContext, t.Proxy, t.DisableCompression = d.DialContext, http.ProxyFromEnvironment, false
		c.base.Host, c.base.Path = u.Host, strings.TrimSuffix(u.Path, "/")
		if scheme == "https" {
			c.base.Scheme = "https"
		}
	default:
		return hinterr.Errorf(hinterr.ErrUnsupported, "unknown scheme %s", scheme)
	}
	dir, verify := h.TLS, true
	if h.Env {
		dir, verify = os.Getenv("DOCKER_CERT_PATH"), os.Getenv("DOCKER_TLS_VERIFY") != ""
	}
	if dir == "" {
		return nil
	}
	var err error
	if t.TLSClientConfig, err = clientTLS(dir, verify, h.Env); err != nil {
		return err
	}
	c.base.Scheme = "https"
	return nil
}

// clientTLS is how docker's own client uses a directory of certificates; all says that none may be missing.
func clientTLS(dir string, verify, all bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: !verify}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	missing := errors.Is(err, fs.ErrNotExist) && !all
	switch {
	case !verify, missing:
	case err != nil:
		return nil, err
	default:
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return nil, hinterr.Damaged("%s: no certificate in it", filepath.Join(dir, "ca.pem"))
		}
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if errors.Is(err, fs.ErrNotExist) && !all {
		return c, nil
	}
	c.Certificates = []tls.Certificate{own}
	return c, err
}

func (c *Client) negotiate(ctx context.Context, env bool) error {
	ping, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	resp, err := c.do(ping, http.MethodGet, "/_ping", nil, nil, "")
	if err == nil {
		resp.Body.Close()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		why := err
		if op, is := errors.AsType[*net.OpError](err); is {
			why = op.Err
		}
		none := hinterr.Errorf(hinterr.ErrNoDaemon, "no docker or podman daemon at %s: %v", c.Host, why)
		if errors.Is(err, fs.ErrPermission) {
			return hinterr.With(none, "this user may not talk to the daemon: use sudo, or a docker group")
		}
		return none
	}
	c.version = newestAPI
	switch v := resp.Header.Get("Api-Version"); {
	case env && os.Getenv("DOCKER_API_VERSION") != "":
		c.version = strings.TrimPrefix(os.Getenv("DOCKER_API_VERSION"), "v")
	case v != "" && older(v, oldestAPI):
		return hinterr.Errorf(hinterr.ErrUnsupported, "docker daemon %s: API version %s, want %s or newer", c.Host, v, oldestAPI)
	case v != "" && older(v, newestAPI):
		c.version = v
	}
	c.base.Path += "/v" + c.version
	return nil
}

// Since reports whether the daemon's API is of this version or newer.
func (c *Client) Since(version string) bool { return !older(c.version, version) }

// older compares two versions, as 1.41.
func older(a, b string) bool {
	var x, y [2]int
	fmt.Sscanf(a, "%d.%d", &x[0], &x[1]) // other words than numbers are 0
	fmt.Sscanf(b, "%d.%d", &y[0], &y[1])
	return x[0] < y[0] || x[0] == y[0] && x[1] < y[1]
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
