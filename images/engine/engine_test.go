package engine

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

// fake is an engine with an API version that gives each path below it one answer, and keeps the requests.
type fake struct {
	api    string
	status int
	answer map[string]string
	seen   []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.seen = append(f.seen, strings.TrimSpace(fmt.Sprintln(r.Method, r.URL, r.UserAgent(), r.Header.Get("Content-Type"), string(body))))
	if f.api != "" {
		w.Header().Set("Api-Version", f.api)
	}
	if r.URL.Path == "/_ping" {
		return
	}
	if f.status != 0 {
		w.WriteHeader(f.status)
	}
	_, path, _ := strings.Cut(r.URL.Path[1:], "/")
	io.WriteString(w, f.answer[path])
}

// client starts f on a port and connects to it.
func (f *fake) client(t *testing.T) *Client {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	c, err := Connect(t.Context(), Host{URL: "tcp://" + s.Listener.Addr().String()}, "vfix/1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Both sides use the newest API version that both know; the user's wish goes first.
func TestNegotiate(t *testing.T) {
	f := &fake{}
	s := httptest.NewServer(f)
	defer s.Close()
	for _, c := range []struct {
		api, wish string
		env       bool
		want      string // "" for none
	}{
		{"", "", false, "1.52"}, {"1.40", "", false, "1.40"}, {"1.41", "", false, "1.41"}, {"1.52", "", false, "1.52"}, {"1.53", "", false, "1.52"},
		{"2.0", "", false, "1.52"}, {"1.39", "", false, ""}, {"0.50", "", false, ""}, {"1.41", "v1.30", false, "1.41"}, {"1.41", "v1.30", true, "1.30"},
		{"1.39", "1.39", true, "1.39"}, {"1.41", "", true, "1.41"},
	} {
		t.Setenv("DOCKER_API_VERSION", c.wish)
		f.api, f.seen = c.api, nil
		e, err := Connect(t.Context(), Host{URL: strings.Replace(s.URL, "http", "tcp", 1) + "/below/", Env: c.env}, "vfix/1")
		if c.want == "" {
			if !errors.Is(err, hinterr.ErrUnsupported) || !strings.Contains(err.Error(), c.api+", want 1.40") {
				t.Errorf("%+v: got %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		e.Images(t.Context())
		if want := []string{"GET /below/_ping vfix/1", "GET /below/v" + c.want + "/images/json vfix/1"}; !slices.Equal(f.seen, want) {
			t.Errorf("%+v: got the requests %q, want %q", c, f.seen, want)
		}
		if !e.Since(c.want) || !e.Since("0.99") || e.Since(c.want+"9") || e.Since("3.0") {
			t.Errorf("%+v: wrong about versions", c)
		}
	}
}

// A host that cannot be reached, and why.
func TestConnect(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_CERT_PATH", t.TempDir())
	for _, c := range []struct {
		host Host
		kind error
		want string
	}{
		{Host{URL: "docker.sock"}, nil, "docker.sock: not the URL of a daemon"}, {Host{URL: "unix://"}, nil, "unix://: not the URL"},
		{Host{URL: "gopher://h"}, hinterr.ErrUnsupported, "unknown scheme gopher"}, {Host{URL: "tcp://h:x"}, nil, "invalid port"},
		{Host{URL: "ssh://h?x=1"}, nil, "query"}, {Host{URL: "unix://" + dir + "/none"}, hinterr.ErrNoDaemon, dir + "/none: connect: no such file"},
		{Host{URL: "tcp://h:1", TLS: dir}, hinterr.ErrDamaged, "no certificate in it"}, {Host{URL: "tcp://h:1", Env: true}, os.ErrNotExist, "cert.pem"},
		{Host{URL: "tcp://h:1", TLS: filepath.Join(dir, "ca.pem")}, nil, "not a directory"},
	} {
		if _, err := Connect(t.Context(), c.host, ""); err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.host, err, c.want)
		}
	}
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	if _, err := Connect(t.Context(), Host{URL: "tcp://h:1", Env: true}, ""); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "ca.pem") {
		t.Errorf("no certificates: got %v", err)
	}
}

// A directory of certificates decides which engine is trusted.
func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(&fake{})
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	with, without := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(with, "ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"tcp", "https"} {
		url := scheme + "://" + s.Listener.Addr().String()
		for dir, trusted := range map[string]bool{with: true, without: false} {
			if _, err := Connect(t.Context(), Host{URL: url, TLS: dir}, ""); (err == nil) != trusted {
				t.Errorf("%s, trusted %v: got %v", scheme, trusted, err)
			}
		}
		if _, err := Connect(t.Context(), Host{URL: url}, ""); err == nil {
			t.Errorf("%s without certificates: no error", scheme)
		}
	}
}

// The error of a request is the message of the engine, else the status.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status int
		answer string
		want   string
	}{
		{404, `{"message":"no such image\n"}`, "no such image"}, {404, "", "404 Not Found"}, {500, "oops", "500 Internal Server Error"},
		{400, `{"message":""}`, "400 Bad Request"}, {409, `{"message":"busy"}`, "busy"}, {200, "oops", "the engine's answer to GET /images/x/json: invalid"},
	} {
		f := &fake{status: c.status, answer: map[string]string{"images/x/json": c.answer, "create": c.answer, "containers/x/json": `{"State":7}`}}
		e := f.client(t)
		if _, err := e.Image(t.Context(), "x"); err == nil || !strings.HasPrefix(err.Error(), c.want) || NotFound(err) != (c.status == 404) {
			t.Errorf("%+v: got %v", c, err)
		}
		answer, err := e.Post(t.Context(), "/create", nil, []byte("{}"))
		if c.status == 200 && (err != nil || string(answer) != c.answer) || c.status != 200 && (err == nil || err.Error() != c.want) {
			t.Errorf("%+v: posted: got %q, %v", c, answer, err)
		}
		if last := f.seen[len(f.seen)-1]; !strings.HasSuffix(last, "/create vfix/1 application/json {}") {
			t.Errorf("got the request %q", last)
		}
		if _, err := e.Container(t.Context(), "x"); c.status == 200 && (err == nil || !strings.HasPrefix(err.Error(), "the engine's answer about container x: ")) {
			t.Errorf("an odd container: got %v", err)
		}
		if _, err := e.Traits(t.Context()); err == nil {
			t.Errorf("%+v: got traits", c)
		}
	}
	gone := httptest.NewServer(&fake{})
	c, err := Connect(t.Context(), Host{URL: gone.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	if _, err := c.Post(t.Context(), "/create", nil, nil); err == nil || !strings.HasPrefix(err.Error(), "POST /create: ") {
		t.Errorf("an engine that ended: got %v", err)
	}
}

func TestTraits(t *testing.T) {
	for _, c := range []struct {
		version, info string
		want          Traits
	}{
		{`{}`, `{}`, Traits{Name: "docker"}},
		{`{"Components":[{"Name":"Engine"},{"Name":"Podman Engine"},{"Name":"Conmon"}]}`, `{"SecurityOptions":["name=seccomp,profile=x"]}`, Traits{Name: "podman"}},
		{`{}`, `{"SecurityOptions":["name=seccomp","name=rootless","name=x"]}`, Traits{Name: "docker", Rootless: true}},
		{`{}`, `{"SecurityOptions":["name=userns"],"DockerRootDir":"/var/lib/docker/1000.2000"}`, Traits{Name: "docker", ShiftUID: 1000, ShiftGID: 2000}},
		{`{}`, `{"SecurityOptions":["name=userns"],"DockerRootDir":"/var/lib/docker"}`, Traits{Name: "docker"}},
		{`{}`, `{"SecurityOptions":["name=userns"],"DockerRootDir":"/1.x"}`, Traits{Name: "docker"}},
		{`{}`, `{"SecurityOptions":["name=userns"],"DockerRootDir":"/x.1"}`, Traits{Name: "docker"}},
		{`{}`, `{"SecurityOptions":["name=userns"],"DockerRootDir":"/4294967296.1"}`, Traits{Name: "docker"}},
		{`{}`, `{"SecurityOptions":["name=seccomp"],"DockerRootDir":"/1000.2000"}`, Traits{Name: "docker"}},
	} {
		f := &fake{answer: map[string]string{"version": c.version, "info": c.info}}
		e := f.client(t)
		c.want.Remote = strings.TrimPrefix(e.Host, "tcp://")
		if got, err := e.Traits(t.Context()); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.info, got, err, c.want)
		}
		delete(f.answer, "info")
		if _, err := e.Traits(t.Context()); err == nil {
			t.Error("no answer about it: no error")
		}
	}
	f := &fake{answer: map[string]string{"version": "{}", "info": "{}"}}
	sock := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(l, f)
	defer l.Close()
	e, err := Connect(t.Context(), Host{URL: "unix://" + sock}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.Traits(t.Context()); err != nil || got.Remote != "" {
		t.Errorf("on this machine: got %+v, %v", got, err)
	}
}

// Each call sends the request that the API has for it.
func TestCalls(t *testing.T) {
	f := &fake{api: "1.47", answer: map[string]string{"containers/json": "[]"}}
	e := f.client(t)
	save := func(e *Client) error { _, err := e.Save(t.Context(), "i", Platform{OS: "linux"}); return err }
	_, some := e.Containers(t.Context(), false)
	_, all := e.Containers(t.Context(), true)
	_, load := e.Load(t.Context(), strings.NewReader("tar"))
	if err := errors.Join(save(e), some, all, load); err != nil {
		t.Error(err)
	}
	f.api = "1.48"
	if err := save(f.client(t)); err != nil {
		t.Error(err)
	}
	want := []string{
		"GET /_ping vfix/1", "GET /v1.47/containers/json vfix/1", "GET /v1.47/containers/json?all=1 vfix/1",
		"POST /v1.47/images/load?quiet=1 vfix/1 application/x-tar tar", "GET /v1.47/images/get?names=i vfix/1",
		"GET /_ping vfix/1", "GET /v1.48/images/get?names=i&platform=%7B%22architecture%22%3A%22%22%2C%22os%22%3A%22linux%22%7D vfix/1",
	}
	if !slices.Equal(f.seen, want) {
		t.Errorf("got the requests %q, want %q", f.seen, want)
	}
	for state, busy := range map[string]bool{"null": false, "{}": false, `{"Running":true}`: true, `{"Paused":true}`: true, `{"Restarting":true}`: true, `{"OOMKilled":true}`: false} {
		f.answer["containers/x/json"] = `{"Id":"x","State":` + state + `}`
		c, err := e.Container(t.Context(), "x")
		if err != nil || c.ID != "x" || c.Busy() != busy || string(c.Raw) != f.answer["containers/x/json"] {
			t.Errorf("%s: got %+v, %v", state, c, err)
		}
	}
}
