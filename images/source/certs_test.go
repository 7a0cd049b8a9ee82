package source

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// A registry's authority comes from the directory of its host; without it the connection is refused.
func TestHostTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "https://")
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	get := func(o Options) error {
		resp, err := o.WithDefaults().Net.RoundTrip(httptest.NewRequest("GET", s.URL, nil))
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get(Options{}); err == nil {
		t.Error("an unknown authority was accepted")
	}
	if err := get(Options{Insecure: true}); err != nil {
		t.Errorf("--insecure: %v", err)
	}
	dir := filepath.Join(config, "docker", "certs.d", host)
	os.MkdirAll(dir, 0o755)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o644)
	if err := get(Options{}); err != nil {
		t.Errorf("with its authority: %v", err)
	}
	os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("x"), 0o644)
	if err := get(Options{}); err == nil || !strings.Contains(err.Error(), "ca.crt: no PEM certificate") {
		t.Errorf("no certificate: got %v", err)
	}
}

// Plain HTTP is for this machine alone.
func TestPlainHTTP(t *testing.T) {
	rt := &Network{o: Options{Stall: time.Second}}
	if _, err := rt.RoundTrip(httptest.NewRequest("GET", "http://10.1.2.3/v2/", nil)); err != errPlainHTTP {
		t.Errorf("got %v", err)
	}
}

// A public registry does not lead vfix into this machine's network.
func TestRedirect(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is sent
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"https://h.example/", "https://s.example/", true}, {"https://h.example/", "http://169.254.169.254/", false},
		{"https://h.example/", "http://127.0.0.1/", false}, {"https://h.example/", "http://10.0.0.1/", false}, {"https://10.0.0.1/", "https://10.0.0.2/", true},
	} {
		req := httptest.NewRequestWithContext(ctx, "GET", c.to, nil)
		req.Response = &http.Response{Request: httptest.NewRequest("GET", c.from, nil)}
		if _, err := (Options{}).WithDefaults().Net.RoundTrip(req); (err == errInward) == c.ok || err == nil {
			t.Errorf("%s to %s: got %v", c.from, c.to, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "x": 0} {
		if got := retryAfter(&http.Response{Header: http.Header{"Retry-After": {text}}}); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	if got := retryAfter(&http.Response{Header: http.Header{"Retry-After": {date}}}); got < 59*time.Minute || got > time.Hour {
		t.Errorf("a date: got %v", got)
	}
}

// A registry that does not answer in time is asked once: each try takes as long.
func TestIsTemporary(t *testing.T) {
	_, slow := (&net.Dialer{Timeout: 1}).Dial("tcp", "127.0.0.1:1")
	for err, want := range map[error]bool{
		slow: false, os.ErrDeadlineExceeded: false, io.ErrUnexpectedEOF: true, syscall.ECONNRESET: true, syscall.ECONNREFUSED: false,
		&net.DNSError{IsTemporary: true}: true, &transport.Error{StatusCode: 503}: true, &transport.Error{StatusCode: 404}: false,
	} {
		for _, err := range []error{err, &url.Error{Err: err}} {
			if got := isTemporary(err); got != want {
				t.Errorf("%v: got %v", err, got)
			}
		}
	}
}
