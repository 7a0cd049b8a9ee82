// Certificates for a registry are where docker and podman look for them: a folder named
// HOST or HOST:PORT with
//
//	*.crt              authorities, beside those of the system
//	NAME.cert NAME.key a certificate to show, and its key
//
// Sources: docker, registry/registry.go, ReadCertsDirectory; containers-certs.d(5). The
// authorities of the system are Go's: SSL_CERT_FILE and SSL_CERT_DIR replace them.

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

// certFolders are the folders that have one for each host, the more particular one first.
func certFolders() []string {
	var all []string
	if config, err := os.UserConfigDir(); err == nil {
		all = append(all, filepath.Join(config, "containers", "certs.d"), filepath.Join(config, "docker", "certs.d"))
	}
	return append(all, "/etc/containers/certs.d", "/etc/docker/certs.d")
}

// hosts sends each request through the transport of its host: the common one, or one with
// a TLS configuration of its own.
type hosts struct {
	insecure bool
	folders  []string
	common   *http.Transport

	mu  sync.Mutex
	own map[string]http.RoundTripper
}

func newHosts(insecure bool) *hosts {
	h := &hosts{insecure: insecure, folders: certFolders(), common: newTransport(), own: map[string]http.RoundTripper{}}
	if insecure {
		h.common.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // what Insecure is for
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

// of returns the transport of a host, given as in a URL.
func (h *hosts) of(host string) (http.RoundTripper, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.own[host]; t != nil {
		return t, nil
	}
	c, err := hostTLS(h.folders, host)
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

// hostTLS reads the folders of a host; nil if it has none with anything in it.
func hostTLS(folders []string, host string) (*tls.Config, error) {
	names := []string{host}
	if bare, ok := strings.CutSuffix(host, ":443"); ok {
		names = append(names, bare)
	}
	for _, folder := range folders {
		for _, n := range names {
			dir := filepath.Join(folder, n)
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

// readCerts makes a TLS configuration of what is in a folder, nil of nothing.
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
					"a certificate to show is NAME.cert beside its NAME.key; an authority is NAME.crt")
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
			return nil, hinterr.Damaged("certificate %s: no certificate in PEM form in it", path)
		}
	}
	return c, nil
}
