// Certificates for registries, from the files of docker, podman and skopeo.

package source

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

// certDirs returns the directories that may have certificates for a host, the more specific one first. They are named
// HOST or HOST:PORT (docker, registry/registry.go, ReadCertsDirectory; containers-certs.d(5)).
func certDirs(host string) (all []string) {
	roots := []string{"/etc/containers", "/etc/docker"}
	if config, err := os.UserConfigDir(); err == nil {
		roots = append([]string{filepath.Join(config, "containers"), filepath.Join(config, "docker")}, roots...)
	}
	for _, root := range roots {
		at := filepath.Join(root, "certs.d", host)
		all = append(all, at, strings.TrimSuffix(at, ":443"))
	}
	return all
}

// hostTLS reads the certificates of a host from the first directory that has some: NAME.crt is an authority in
// addition to the system's, NAME.cert with NAME.key a client certificate.
func hostTLS(host string) (*tls.Config, error) {
	c := &tls.Config{}
	for _, at := range certDirs(host) {
		authorities, _ := filepath.Glob(filepath.Join(at, "*.crt"))
		own, _ := filepath.Glob(filepath.Join(at, "*.cert"))
		for _, path := range authorities {
			if err := addAuthority(c, path); err != nil {
				return nil, err
			}
		}
		for _, path := range own {
			pair, err := tls.LoadX509KeyPair(path, strings.TrimSuffix(path, ".cert")+".key")
			if err != nil {
				return nil, hinterr.With(fmt.Errorf("certificate %s: %w", path, err), "a client certificate is NAME.cert with NAME.key; an authority is NAME.crt")
			}
			c.Certificates = append(c.Certificates, pair)
		}
		if len(authorities)+len(own) > 0 {
			break
		}
	}
	return c, nil
}

func addAuthority(c *tls.Config, path string) error {
	pem, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if c.RootCAs == nil {
		if c.RootCAs, err = x509.SystemCertPool(); err != nil {
			c.RootCAs = x509.NewCertPool()
		}
	}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return hinterr.Damaged("certificate %s: no PEM certificate in it", path)
	}
	return nil
}
