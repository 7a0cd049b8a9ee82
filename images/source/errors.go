// What a registry's errors mean, and what to do about them.

package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/internal/hinterr"
)

// registryError is an error about an object of a registry: which registry, its answer, what to do.
func registryError(ctx context.Context, reg name.Registry, object string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("registry %s: %s: %w", reg.RegistryStr(), object, plain(err, reg.RegistryStr()))
}

// objectOf is what an error calls an image in its registry.
func objectOf(n name.Reference) string {
	return strings.TrimPrefix(n.Name(), n.Context().RegistryStr()+"/")
}

// plain is what is wrong with a request to a host, without the addresses and URLs that net and http add: some carry
// signatures. A plain error stays.
func plain(err error, host string) error {
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	var status *transport.Error
	var u *url.Error
	ofCertificate := func(err error) error {
		return hinterr.With(errors.New(err.Error()), "certificates for it belong in /etc/docker/certs.d/%s: an authority as ca.crt, one to show as client.cert and client.key", host)
	}
	switch { // an answer to http may be beside the first three, of https
	case errors.Is(err, os.ErrDeadlineExceeded):
		return hinterr.With(errors.New("no progress: the registry or the connection to it hangs"), "try again")
	case errors.As(err, &cert):
		return ofCertificate(cert)
	case errors.As(err, &op) && op.Op == "remote error": // crypto/tls: the registry refuses our certificate
		return ofCertificate(op)
	case errors.As(err, &status):
		return statusError(status, host)
	case errors.Is(err, http.ErrSchemeMismatch):
		return hinterr.With(errors.New("it does not speak TLS"), "a registry without TLS needs --insecure")
	case errors.As(err, &op):
		return op.Err
	case errors.As(err, &u) && errors.Is(u.Err, io.EOF):
		return fmt.Errorf("the connection broke: %w", io.ErrUnexpectedEOF)
	case errors.As(err, &u):
		return u.Err
	}
	return err
}

// statusError words an HTTP status that is not a success.
func statusError(e *transport.Error, host string) error {
	text := fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode))
	for _, d := range e.Errors {
		text += strings.TrimSuffix(": "+d.Message, ": ")
	}
	switch e.StatusCode {
	case http.StatusNotFound:
		return hinterr.Errorf(hinterr.ErrNotFound, "not found (%s)", text)
	case http.StatusUnauthorized, http.StatusForbidden:
		// Docker Hub and others also answer so if the repository does not exist.
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnauthorized, "no access, or no such repository (%s)", text), "docker login %s", host)
	case http.StatusTooManyRequests:
		return hinterr.With(fmt.Errorf("too many requests (%s)", text), "wait, or log in for a higher limit: docker login %s", host)
	}
	return hinterr.With(fmt.Errorf("the registry answers %s", text), "try again; see the registry's log for details")
}
