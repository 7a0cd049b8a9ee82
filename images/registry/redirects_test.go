package registry_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// A registry at a private address may have its blobs, manifests and tokens at others; these get no credentials
// that are for it, and neither does another port of the same address.
func TestPrivateRegistry(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: img})
	const reg, storage, tokens, otherPort = "10.1.0.1:5000", "10.2.0.2", "192.168.3.3", "10.1.0.1:6000"
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: f.Host})
	var mu sync.Mutex
	var lines []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		lines = append(lines, fmt.Sprintf("%s %s %q", r.Host, r.URL.Path, r.Header.Get("Authorization")))
		mu.Unlock()
		switch {
		case r.Host == tokens:
			user, password, _ := r.BasicAuth()
			if user != "me" || password != "secret" || r.URL.Path != "/auth/token" || r.URL.Query().Get("service") != "reg" || r.URL.Query().Get("keep") != "this" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, `{"token":"tok"}`)
		case r.Host == reg && r.Header.Get("Authorization") != "Bearer tok":
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://192.168.3.3/auth/token?keep=this",service="reg"`)
			w.WriteHeader(http.StatusUnauthorized)
		case r.Host == reg && strings.Contains(r.URL.Path, "/manifests/"):
			http.Redirect(w, r, "http://"+storage+r.URL.Path, http.StatusTemporaryRedirect)
		case r.Host == reg && strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, "http://"+otherPort+r.URL.Path, http.StatusFound)
		case r.Host == reg:
			fmt.Fprint(w, "{}")
		default:
			if r.Header.Get("Authorization") != "" {
				t.Errorf("credentials for %s", r.Host)
			}
			proxy.ServeHTTP(w, r)
		}
	}))
	defer server.Close()

	home := t.TempDir()
	t.Setenv("DOCKER_CONFIG", home)
	login, _ := json.Marshal(map[string]any{"auths": map[string]any{reg: map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte("me:secret"))}}})
	if err := os.WriteFile(filepath.Join(home, "config.json"), login, 0o600); err != nil {
		t.Fatal(err)
	}
	o := imagetest.Fast
	o.Insecure, o.Meter = true, &registry.Meter{}
	o = o.WithDefaults()
	o.Net.Dial(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	})
	src, err := sources.Open(context.Background(), "docker://"+reg+"/a/tiny:1", o)
	if err != nil {
		t.Fatalf("%v: %q", err, lines)
	}
	imagetest.SameImage(t, src.Image, img)
	if n := len(o.Meter.ByHost()); n != 4 {
		t.Errorf("counted %d hosts, want 4", n)
	}
	seen := strings.Join(lines, "\n")
	for _, want := range []string{"192.168.3.3 /auth/token", "10.2.0.2 /v2/a/tiny/manifests/1", otherPort + " /v2/a/tiny/blobs/"} {
		if !strings.Contains(seen, want) {
			t.Errorf("no request %s in\n%s", want, seen)
		}
	}
}

// A public registry may not name a token server in a private network, and no redirect may lead to the path for
// such a server.
func TestRealms(t *testing.T) {
	for _, c := range []struct {
		at, realm, want string
	}{
		{"http://10.0.0.1/v2/", "http://10.0.0.2/t?a=b", "http://10.0.0.1/.vfix-realm/10.0.0.2/t?a=b"},
		{"http://10.0.0.1/v2/", "http://10.0.0.1:5001/t", "http://10.0.0.1/.vfix-realm/10.0.0.1:5001/t"},
		{"http://10.0.0.1/v2/", "http://169.254.169.254/t", ""},
		{"http://203.0.113.1/v2/", "http://10.0.0.2/t", ""},
		{"http://10.0.0.1/v2/", "http://auth.example/t", ""},
		{"http://10.0.0.1/v2/", "http://10.0.0.1/t", ""},
	} {
		resp := &http.Response{Request: imagetest.Must[*http.Request](t)(http.NewRequest("GET", c.at, nil)), Header: http.Header{}}
		before := `Bearer realm="` + c.realm + `",service="x"`
		resp.Header.Set("WWW-Authenticate", before)
		registry.LocalRealm(resp)
		want := before
		if c.want != "" {
			want = `Bearer realm="` + c.want + `",service="x"`
		}
		if got := resp.Header.Get("WWW-Authenticate"); got != want {
			t.Errorf("%s: got %s, want %s", c.at, got, want)
		}
	}
	next := imagetest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"/.vfix-realm/10.0.0.9/x"}}, Body: http.NoBody, Request: r}, nil
	})
	_, err := registry.Redirects{Next: next}.RoundTrip(imagetest.Must[*http.Request](t)(http.NewRequest("GET", "http://10.0.0.1/v2/x", nil)))
	imagetest.WantErr(t, err, nil, "a path of vfix's own")
	_, err = registry.Redirects{Next: next}.RoundTrip(imagetest.Must[*http.Request](t)(http.NewRequest("GET", "http://203.0.113.1/.vfix-realm/10.0.0.9/x", nil)))
	imagetest.WantErr(t, err, nil, "10.0.0.9, a private address")
}

// Redirects of reads are followed, and each is checked; those of writes are left to the client.
func TestRedirectsByMethod(t *testing.T) {
	for _, c := range []struct{ method, to, want string }{
		{"GET", "http://203.0.113.2/end", "200 http://203.0.113.2/end"},
		{"HEAD", "http://203.0.113.2/end", "200 http://203.0.113.2/end"},
		{"POST", "http://203.0.113.2/end", "302 http://203.0.113.1/x"},
		{"GET", "http://10.0.0.9/end", "redirected to 10.0.0.9, a private address"},
		{"GET", "", "redirect: "},
	} {
		next := imagetest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: 302, Header: http.Header{}, Body: http.NoBody, Request: r}
			if c.to != "" {
				resp.Header.Set("Location", c.to)
			}
			if r.URL.Path == "/end" {
				resp.StatusCode = 200
			}
			return resp, nil
		})
		got := ""
		resp, err := registry.Redirects{Next: next}.RoundTrip(imagetest.Must[*http.Request](t)(http.NewRequest(c.method, "http://203.0.113.1/x", nil)))
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(resp.StatusCode, " ", resp.Request.URL)
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s, redirected to %q: got %s, want %s", c.method, c.to, got, c.want)
		}
	}
}

// A chain of redirects: its secrets stay at the first host and port, the last answer has all requests before it, the
// answers before it are closed, and as in net/http it is shorter than ten.
func TestRedirectChain(t *testing.T) {
	for _, c := range []struct {
		hops  int
		host  string // of the hops
		fails string
	}{
		{0, "203.0.113.1", ""}, {1, "203.0.113.1", ""}, {1, "203.0.113.1:8443", ""}, {3, "203.0.113.2", ""}, {9, "203.0.113.2", ""},
		{10, "203.0.113.2", "more than 10 redirects"},
	} {
		open, sent := 0, 0
		next := imagetest.RoundTrip(func(r *http.Request) (*http.Response, error) {
			for _, name := range []string{"Authorization", "Cookie", "Proxy-Authorization", "Accept"} {
				if kept := r.Header.Get(name) == "x"; kept != (name == "Accept" || r.URL.Host == "203.0.113.1") {
					t.Errorf("%+v: %s at %s: %v", c, name, r.URL, kept)
				}
			}
			open++
			resp := &http.Response{StatusCode: 307, Header: http.Header{"Location": {fmt.Sprintf("https://%s/%d", c.host, sent+1)}}, Body: &counted{strings.NewReader("moved"), &open}, Request: r}
			if sent++; sent > c.hops {
				resp.StatusCode = 200
			}
			return resp, nil
		})
		req := get(t, "https://203.0.113.1/0")
		for _, name := range []string{"Authorization", "Cookie", "Proxy-Authorization", "Accept"} {
			req.Header.Set(name, "x")
		}
		resp, err := registry.Redirects{Next: next}.RoundTrip(req)
		if c.fails != "" {
			imagetest.WantErr(t, err, nil, c.fails)
		} else if err != nil || resp.StatusCode != 200 {
			t.Errorf("%+v: got %v, %v", c, resp, err)
		} else {
			before := 0
			for r := resp.Request; r.Response != nil; r = r.Response.Request {
				before++
			}
			if before != c.hops {
				t.Errorf("%+v: %d requests before the last", c, before)
			}
			resp.Body.Close()
		}
		if open != 0 || sent != min(c.hops+1, 11) && c.fails == "" {
			t.Errorf("%+v: %d requests, %d answers are open", c, sent, open)
		}
	}
}
