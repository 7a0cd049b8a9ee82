// Certificates for a registry come from the directories of docker and podman: a directory named HOST or HOST:PORT
// with
//
//	*.crt              authorities, in addition to the system's
//	NAME.cert NAME.key a client certificate, and its key
//
// Sources: docker, registry/registry.go, ReadCertsDirectory; containers-certs.d(5). Go finds the system's
// authorities: SSL_CERT_FILE and SSL_CERT_DIR replace them.

package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// certDirs returns the directories with one directory for each host, the more specific one first.
func certDirs() []string {
	var all []string
	if config, err := os.UserConfigDir(); err == nil {
		all = append(all, filepath.Join(config, "containers", "certs.d"), filepath.Join(config, "docker", "certs.d"))
	}
	return append(all, "/etc/containers/certs.d", "/etc/docker/certs.d")
}

// hosts sends each request through the transport of its host: the common one, or one with its own TLS
// configuration.
type hosts struct {
	insecure bool
	dirs     []string
	common   *http.Transport

	mu  sync.Mutex
	own map[string]http.RoundTripper
}

func newHosts(insecure bool) *hosts {
	h := &hosts{insecure: insecure, dirs: certDirs(), common: newTransport(), own: map[string]http.RoundTripper{}}
	if insecure {
		h.common.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the purpose of Insecure
	}
	return h
}

func (h *hosts) RoundTrip(req *http.Request) (*http.Response, error) {
	t, err := h.of(req.URL.Host)
	if err != nil {
		return refuse(req, err)
	}
	return t.RoundTrip(req)
}

// of returns the transport of a host, written as in a URL.
func (h *hosts) of(host string) (http.RoundTripper, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.own[host]; t != nil {
		return t, nil
	}
	c, err := hostTLS(h.dirs, host)
	if err != nil {
		return nil, err
	}
	t := h.common
	if c != nil {
		c.InsecureSkipVerify = h.insecure
		t = t.Clone()
		t.TLSClientConfig = c
	}
	h.own[host] = t
	return t, nil
}

// hostTLS reads the directories of a host; nil if they are missing or empty.
func hostTLS(dirs []string, host string) (*tls.Config, error) {
	names := []string{host}
	if bare, ok := strings.CutSuffix(host, ":443"); ok {
		names = append(names, bare)
	}
	for _, directory := range dirs {
		for _, n := range names {
			dir := filepath.Join(directory, n)
			entries, err := os.ReadDir(dir)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if c, err := readCerts(dir, entries); c != nil || err != nil {
				return c, err
			}
		}
	}
	return nil, nil
}

// readCerts makes a TLS configuration from the files in a directory, nil if it has no certificates.
func readCerts(dir string, entries []os.DirEntry) (*tls.Config, error) {
	var c *tls.Config
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		base, ext := strings.TrimSuffix(e.Name(), filepath.Ext(path)), filepath.Ext(path)
		if ext != ".crt" && ext != ".cert" {
			continue
		}
		if c == nil {
			c = &tls.Config{}
		}
		if ext == ".cert" {
			pair, err := tls.LoadX509KeyPair(path, filepath.Join(dir, base+".key"))
			if err != nil {
				return nil, hinterr.With(fmt.Errorf("certificate %s: %w", path, err),
					"a client certificate is NAME.cert with NAME.key; an authority is NAME.crt")
			}
			c.Certificates = append(c.Certificates, pair)
			continue
		}
		pem, err := blob.ReadSmall(path, blob.MaxManifest)
		if err != nil {
			return nil, err
		}
		if c.RootCAs == nil {
			if c.RootCAs, err = x509.SystemCertPool(); err != nil {
				c.RootCAs = x509.NewCertPool()
			}
		}
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, hinterr.Damaged("certificate %s: no PEM certificate in it", path)
		}
	}
	return c, nil
}
