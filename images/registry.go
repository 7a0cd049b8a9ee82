package images

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
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// openRegistry opens an image in a registry. No layer is fetched yet.
func openRegistry(ctx context.Context, ref Ref, o MediaOptions) (*Source, error) {
	n, err := name.ParseReference(ref.Name, nameOptions(o.Insecure)...)
	if err != nil {
		return nil, badName(ref.Name, err)
	}
	desc, from, err := getManifest(ctx, n, o)
	if err != nil {
		return nil, registryError(ctx, from, err)
	}
	at := site{ctx: ctx, net: o.net, repo: from.Context(), origin: n.Context()}
	src := &Source{Ref: ref, Digest: desc.Digest.String(), Close: func() error { return nil }}
	switch {
	case desc.MediaType.IsIndex():
		var idx v1.ImageIndex
		if idx, err = desc.ImageIndex(); err == nil {
			err = src.chooseFrom(remoteIndex{idx, at}, o)
		}
	case desc.MediaType.IsImage():
		var img v1.Image
		if img, err = desc.Image(); err == nil {
			err = src.take(remoteImage{img, at}, o)
		}
	case isSchema1(desc.MediaType), looksSchema1(desc.Manifest):
		err = src.takeRemoteSchema1(ctx, n, desc.Manifest, o)
	default:
		err = errorf(ErrUnsupported, "manifest %v: media type %q is not an image", desc.Digest, desc.MediaType)
	}
	if err != nil {
		return nil, registryError(ctx, n, err)
	}
	return src, nil
}

// getManifest fetches a manifest from the first place that has it, and says which that is;
// the error is of the last one.
func getManifest(ctx context.Context, n name.Reference, o MediaOptions) (*remote.Descriptor, name.Reference, error) {
	var err error
	for _, from := range o.net.places(n) {
		var opts []remote.Option
		var desc *remote.Descriptor
		if opts, err = o.net.options(ctx, from.Context(), false); err == nil {
			if desc, err = remote.Get(from, opts...); err == nil {
				return desc, from, nil
			}
		}
		if from != n {
			note(o.Progress, "mirror %s: %s", from.Context().RegistryStr(), Redact(registryError(ctx, from, err).Error()))
		}
	}
	return nil, n, err
}

// registryError words what talking to a registry ended in: which registry and repository,
// what it answered, what to do. It never has a URL in it: some carry signatures.
func registryError(ctx context.Context, n name.Reference, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	where := fmt.Sprintf("registry %s: repository %s: %s", n.Context().RegistryStr(), n.Context().RepositoryStr(), n.Identifier())
	if bad := tlsError(err); bad != nil {
		return withHint(fmt.Errorf("%s: %w", where, bad),
			"certificates for it belong in /etc/docker/certs.d/%s: an authority as ca.crt, one to show as client.cert and client.key", n.Context().RegistryStr())
	}
	var status *transport.Error
	if errors.As(err, &status) {
		return statusError(where, n, status)
	}
	var dns *net.DNSError
	var op *net.OpError
	var u *url.Error
	switch {
	case errors.As(err, &dns):
		return withHint(fmt.Errorf("%s: no such host %s", where, dns.Name),
			"check the name, and that this machine can look names up; a file or folder is written ./NAME")
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%s: no answer: %w", where, op.Err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the connection broke: %w", where, io.ErrUnexpectedEOF)
	case errors.As(err, &u):
		err = u.Err
	}
	if strings.Contains(err.Error(), "HTTP response to HTTPS client") {
		return withHint(fmt.Errorf("%s: %w", where, err), "a registry without TLS needs --insecure")
	}
	return fmt.Errorf("%s: %w", where, err)
}

// tlsError finds what either side has against the other's certificate. With a registry on
// this machine it stands beside the answer to plain HTTP, which says less.
func tlsError(err error) error {
	var cert *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &cert):
		return cert
	case errors.As(err, &op) && op.Op == "remote error": // crypto/tls: an alert
		return op.Err
	}
	return nil
}

// statusError words an HTTP status that is not a success.
func statusError(where string, n name.Reference, e *transport.Error) error {
	text := fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode))
	for _, d := range e.Errors {
		if d.Message != "" {
			text += ": " + d.Message
		}
	}
	switch e.StatusCode {
	case http.StatusNotFound:
		return errorf(ErrNotFound, "%s: no such image (%s)", where, text)
	case http.StatusUnauthorized, http.StatusForbidden:
		// Docker Hub and others answer so where the repository does not exist, too.
		return withHint(errorf(ErrUnauthorized, "%s: no access, or no such repository (%s)", where, text),
			"docker login %s", n.Context().RegistryStr())
	case http.StatusTooManyRequests:
		return withHint(fmt.Errorf("%s: too many requests (%s)", where, text),
			"wait, or log in for a higher limit: docker login %s", n.Context().RegistryStr())
	}
	return withHint(fmt.Errorf("%s: the registry answers %s", where, text), "try again; the registry's own log says more")
}

// putRegistry pushes a result. Layers that are in another repository of the same registry
// are mounted there and not sent; the manifest comes last.
func putRegistry(ctx context.Context, dest Ref, r Result, o MediaOptions) (Stored, error) {
	tag, err := name.NewTag(dest.Name, nameOptions(o.Insecure)...)
	if err != nil {
		return Stored{}, badName(dest.Name, err)
	}
	shown, err := fullTag(dest.Name)
	if err != nil {
		return Stored{}, err
	}
	temp, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return Stored{}, err
	}
	defer os.RemoveAll(temp)
	digest, err := push(ctx, dest, tag, r, temp, o)
	if err != nil {
		return Stored{}, registryError(ctx, tag, err)
	}
	return Stored{Reference: shown + "@" + digest.String(), Digest: digest.String()}, nil
}
