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

// registryError is RegistryError about any object of a registry; missing says what a 404 means. Its text has no URL:
// some carry signatures.
func registryError(ctx context.Context, reg name.Registry, object, missing string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	host := reg.RegistryStr()
	where := fmt.Sprintf("registry %s: %s", host, object)
	var cert *tls.CertificateVerificationError
	var alert *net.OpError
	var status *transport.Error
	var dns *net.DNSError
	var u *url.Error
	var stall *stalled
	switch {
	case errors.As(err, &stall): // beside the answer to the other of https and http
		err = stall
	case errors.As(err, &cert):
		err = cert
	case errors.As(err, &alert) && alert.Op == "remote error": // crypto/tls: the registry refuses our certificate
		err = alert.Err
	case errors.As(err, &status):
		return statusError(where, host, missing, status)
	case errors.As(err, &dns):
		return hinterr.With(fmt.Errorf("%s: no such host %s", where, dns.Name), "check the spelling and this machine's DNS; write ./NAME for a file or directory")
	case errors.Is(err, http.ErrSchemeMismatch):
		return hinterr.With(fmt.Errorf("%s: it does not speak TLS", where), "a registry without TLS needs --insecure")
	case errors.As(err, &alert) && alert.Op == "dial":
		return fmt.Errorf("%s: no answer: %w", where, alert.Err)
	case errors.As(err, &u):
		err = u.Err
	}
	if isTemporary(err) {
		err = fmt.Errorf("the connection broke: %w", io.ErrUnexpectedEOF)
	}
	if cert != nil || alert != nil && alert.Op == "remote error" {
		return hinterr.With(fmt.Errorf("%s: %w", where, err),
			"certificates for it belong in /etc/docker/certs.d/%s: an authority as ca.crt, one to show as client.cert and client.key", host)
	}
	hint := hinterr.HintOf(err)
	if about := fmt.Sprintf("registry %s: ", host); strings.HasPrefix(err.Error(), about) { // a download names it itself
		where = "repository" + strings.TrimPrefix(where, about+"repository")
	}
	return hinterr.With(fmt.Errorf("%s: %w", where, redacted{err}), "%s", hint)
}

// redacted is an error without the credentials that its text may have.
type redacted struct{ error }

func (r redacted) Error() string { return textutil.Redact(r.error.Error()) }
func (r redacted) Unwrap() error { return r.error }

// maxAnswerShown is how much of a registry's description of an error is shown, in bytes.
const maxAnswerShown = 500

// statusError words an HTTP status that is not a success.
func statusError(where, host, missing string, e *transport.Error) error {
	text := fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode))
	for _, d := range e.Errors {
		if d.Message != "" && len(text) < maxAnswerShown {
			text += ": " + d.Message
		}
	}
	if len(text) > maxAnswerShown {
		text = strings.ToValidUTF8(text[:maxAnswerShown], "") + "…"
	}
	switch e.StatusCode {
	case http.StatusNotFound:
		return hinterr.Errorf(hinterr.ErrNotFound, "%s: %s (%s)", where, missing, text)
	case http.StatusUnauthorized, http.StatusForbidden:
		// Docker Hub and others also answer so if the repository does not exist.
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnauthorized, "%s: no access, or no such repository (%s)", where, text), "docker login %s", host)
	case http.StatusTooManyRequests:
		return hinterr.With(fmt.Errorf("%s: too many requests (%s)", where, text), "wait, or log in for a higher limit: docker login %s", host)
	}
	return hinterr.With(fmt.Errorf("%s: the registry answers %s", where, text), "try again; see the registry's log for details")
}
