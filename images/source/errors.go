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
	"vfix.dev/vfix/internal/textutil"
)

// RegistryError describes an error of a registry: which registry and repository, its answer, what to do.
func RegistryError(ctx context.Context, n name.Reference, err error) error {
	kind := "tag"
	if _, ok := n.(name.Digest); ok {
		kind = "digest"
	}
	object := fmt.Sprintf("repository %s, %s %s", n.Context().RepositoryStr(), kind, n.Identifier())
	return registryError(ctx, n.Context().Registry, object, "no such image", err)
}

// registryError is RegistryError about any object of a registry; missing says what a 404 means.
func registryError(ctx context.Context, reg name.Registry, object, missing string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	host := reg.RegistryStr()
	return fmt.Errorf("registry %s: %s: %w", host, object, plain(err, host, missing))
}

// redacted is an error without the credentials that its text may have.
type redacted struct{ error }

func (r redacted) Error() string { return textutil.Redact(r.error.Error()) }
func (r redacted) Unwrap() error { return r.error }

// plain is what is wrong with a request to a host, without the addresses and URLs that net and http add: some carry
// signatures. missing says what a 404 means. An error that has been here stays.
func plain(err error, host, missing string) error {
	if _, is := errors.AsType[redacted](err); is {
		return err
	}
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	var status *transport.Error
	var dns *net.DNSError
	var u *url.Error
	certs := "certificates for it belong in /etc/docker/certs.d/" + host + ": an authority as ca.crt, one to show as client.cert and client.key"
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // this and a certificate may be beside an answer to the other of https and http
		err = hinterr.With(errors.New("no progress: the registry or the connection to it hangs"), "try again")
	case errors.As(err, &cert):
		err = hinterr.With(cert, "%s", certs)
	case errors.As(err, &op) && op.Op == "remote error": // crypto/tls: the registry refuses our certificate
		err = hinterr.With(op.Err, "%s", certs)
	case errors.As(err, &status):
		err = statusError(status, host, missing)
	case errors.As(err, &dns):
		err = hinterr.With(fmt.Errorf("no such host %s", dns.Name), "check the spelling and this machine's DNS; write ./NAME for a file or directory")
	case errors.Is(err, http.ErrSchemeMismatch):
		err = hinterr.With(errors.New("it does not speak TLS"), "a registry without TLS needs --insecure")
	case errors.As(err, &op) && op.Op == "dial":
		err = fmt.Errorf("no answer: %w", op.Err)
	case isTemporary(err):
		err = fmt.Errorf("the connection broke: %w", io.ErrUnexpectedEOF)
	case errors.As(err, &u):
		err = u.Err
	}
	return redacted{err}
}

// statusError words an HTTP status that is not a success.
func statusError(e *transport.Error, host, missing string) error {
	text := fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode))
	for _, d := range e.Errors {
		text += strings.TrimSuffix(": "+d.Message, ": ")
	}
	switch e.StatusCode {
	case http.StatusNotFound:
		return hinterr.Errorf(hinterr.ErrNotFound, "%s (%s)", missing, text)
	case http.StatusUnauthorized, http.StatusForbidden:
		// Docker Hub and others also answer so if the repository does not exist.
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnauthorized, "no access, or no such repository (%s)", text), "docker login %s", host)
	case http.StatusTooManyRequests:
		return hinterr.With(fmt.Errorf("too many requests (%s)", text), "wait, or log in for a higher limit: docker login %s", host)
	}
	return hinterr.With(fmt.Errorf("the registry answers %s", text), "try again; see the registry's log for details")
}
