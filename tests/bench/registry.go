package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
)

// registry is a docker-registry (distribution) on a free port of loopback, and a proxy before
// it that counts. It is that one, as the registry of go-containerregistry has all blobs in
// all repositories and so has nothing to mount.
type registry struct {
	host  string // HOST:PORT of the proxy
	cmd   *exec.Cmd
	proxy *httptest.Server

	mu    sync.Mutex
	count traffic
}

// traffic is what went through.
type traffic struct {
	requests     int
	pushed, read int64 // bytes of bodies, to and from the registry
}

// errNoRegistry: docker-registry is not installed.
var errNoRegistry = errors.New("docker-registry is not installed")

// startRegistry starts a registry that keeps what it gets in dir.
func startRegistry(dir string) (*registry, error) {
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		return nil, errNoRegistry
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yml")
	err = os.WriteFile(config, fmt.Appendf(nil, "version: 0.1\nlog: {level: info, accesslog: {disabled: true}}\n"+
		"storage: {filesystem: {rootdirectory: %s/data}}\nhttp: {addr: '127.0.0.1:0', relativeurls: true}\n", dir), 0o600)
	if err != nil {
		return nil, err
	}
	r := &registry{cmd: exec.Command(program, "serve", config)}
	// It ends with this program, however that ends.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := r.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	at, err := listening(stderr)
	if err != nil {
		r.stop()
		return nil, err
	}
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: at})
	r.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := &counted{ReadCloser: req.Body}
		req.Body = body
		answer := &countedWriter{ResponseWriter: w}
		forward.ServeHTTP(answer, req)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.count.requests++
		r.count.pushed += body.n
		r.count.read += answer.n
	}))
	r.host = r.proxy.Listener.Addr().String()
	return r, nil
}

// listening finds the address in a registry's log. The rest of the log is thrown away.
func listening(log io.Reader) (string, error) {
	address := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if m := address.FindSubmatch(lines.Bytes()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return string(m[1]), nil
		}
	}
	return "", errors.New("docker-registry does not say where it listens")
}

// since is what went through since then.
func (r *registry) since(then traffic) traffic {
	now := r.now()
	return traffic{now.requests - then.requests, now.pushed - then.pushed, now.read - then.read}
}

func (r *registry) now() traffic {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

func (r *registry) stop() {
	if r.proxy != nil {
		r.proxy.Close()
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// counted counts what is read from it.
type counted struct {
	io.ReadCloser
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n += int64(n)
	return n, err
}

// countedWriter counts what is written to it.
type countedWriter struct {
	http.ResponseWriter
	n int64
}

func (c *countedWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n += int64(n)
	return n, err
}

// Unwrap lets the proxy flush (http.ResponseController).
func (c *countedWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
