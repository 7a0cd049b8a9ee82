// Images in a registry: opening and pushing them, and what a registry's errors mean.

package media

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/redact"
)

// OpenRegistry opens an image in a registry. No layer is fetched yet.
func OpenRegistry(ctx context.Context, ref Ref, o Options) (*Source, error) {
	n, err := name.ParseReference(ref.Name, registry.NameOptions(o.Insecure)...)
	if err != nil {
		return nil, BadName(ref.Name, err)
	}
	desc, from, err := ask(ctx, n, o, remote.Get)
	if err != nil {
		return nil, RegistryError(ctx, from, err)
	}
	at := registry.Remote{Ctx: ctx, Net: o.Net, Repo: from.Context(), Origin: n.Context()}
	src := &Source{Ref: ref, Digest: desc.Digest.String()}
	if schema1.IsSchema1(desc.MediaType) || schema1.LooksSchema1(desc.Manifest) {
		err = src.takeRemoteSchema1(ctx, at, n, desc.Manifest, o)
	} else {
		d := v1.Descriptor{MediaType: desc.MediaType, Size: int64(len(desc.Manifest)), Digest: desc.Digest}
		err = src.Choose(ctx, blob.MemBlobs{Data: map[v1.Hash][]byte{d.Digest: desc.Manifest}, Next: at}, d, o)
	}
	if err != nil {
		return nil, RegistryError(ctx, n, err)
	}
	src.Keep = func() {
		release := o.Net.Keep(layersOf(src))
		src.AtEnd(func() error { release(); return nil })
	}
	return src, nil
}

// layersOf are the digests of the layers of a source, each once.
func layersOf(src *Source) []v1.Hash {
	var all []v1.Hash
	for _, s := range append([]*Source{src}, src.Levels...) {
		m, err := s.Image.Manifest()
		if err != nil {
			continue // reading it gives the error
		}
		for _, l := range m.Layers {
			if !slices.Contains(all, l.Digest) {
				all = append(all, l.Digest)
			}
		}
	}
	return all
}

// ask calls f for the places of an image in turn until one answers, and returns that one; the error is the last one's.
func ask[T any](ctx context.Context, n name.Reference, o Options, f func(name.Reference, ...remote.Option) (T, error)) (T, name.Reference, error) {
	var got T
	var err error
	for _, from := range o.Net.Places(n) {
		var opts []remote.Option
		if opts, err = o.Net.Options(ctx, from.Context(), false); err == nil {
			if got, err = f(from, opts...); err == nil {
				return got, from, nil
			}
		}
		if from != n {
			progress.Note(o.Progress, "mirror %s: %s", from.Context().RegistryStr(), redact.Redact(RegistryError(ctx, from, err).Error()))
		}
	}
	return got, n, err
}

// RegistryDigest asks a registry, with one HEAD, for the digest of the manifest or index that a
// name has there now. One that does not answer HEAD is sent a GET of the manifest. The error is
// ErrNotFound if it has none.
func RegistryDigest(ctx context.Context, ref Ref, o Options) (string, error) {
	n, err := name.ParseReference(ref.Name, registry.NameOptions(o.Insecure)...)
	if err != nil {
		return "", BadName(ref.Name, err)
	}
	quiet := o
	quiet.Progress = progress.Silent{}
	head, _, err := ask(ctx, n, quiet, remote.Head)
	if err == nil {
		return head.Digest.String(), nil
	}
	if err = RegistryError(ctx, n, err); errors.Is(err, hinterr.ErrNotFound) || errors.Is(err, hinterr.ErrUnauthorized) || ctx.Err() != nil {
		return "", err
	}
	desc, from, err := ask(ctx, n, o, remote.Get)
	if err != nil {
		return "", RegistryError(ctx, from, err)
	}
	return desc.Digest.String(), nil
}

// RegistryError describes an error of a registry: which registry and repository, its answer,
// what to do. It never has a URL in it: some carry signatures.
func RegistryError(ctx context.Context, n name.Reference, err error) error {
	kind := "tag"
	if strings.Contains(n.Identifier(), ":") {
		kind = "digest"
	}
	return registryError(ctx, n.Context().Registry, fmt.Sprintf("repository %s, %s %s", n.Context().RepositoryStr(), kind, n.Identifier()), "no such image", err)
}

// registryError is RegistryError about any object of a registry; missing says what a 404 means.
func registryError(ctx context.Context, reg name.Registry, object, missing string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	host := reg.RegistryStr()
	where := fmt.Sprintf("registry %s: %s", host, object)
	for part := (*registry.Part)(nil); errors.As(err, &part); err = part.Err {
		where += ", " + part.Name
	}
	if bad := tlsError(err); bad != nil {
		return hinterr.With(fmt.Errorf("%s: %w", where, bad),
			"certificates for it belong in /etc/docker/certs.d/%s: an authority as ca.crt, one to show as client.cert and client.key", host)
	}
	var status *transport.Error
	var dns *net.DNSError
	var op *net.OpError
	var u *url.Error
	if errors.As(err, &status) && !saysTLS(status, err) {
		if hint := hinterr.HintOf(err); hint != "" {
			return hinterr.With(statusError(where, host, missing, status), "%s", hint)
		}
		return statusError(where, host, missing, status)
	}
	switch {
	case errors.As(err, &dns):
		return hinterr.With(fmt.Errorf("%s: no such host %s", where, dns.Name),
			"check the spelling and this machine's DNS; write ./NAME for a file or directory")
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%s: no answer: %w", where, op.Err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the connection broke: %w", where, io.ErrUnexpectedEOF)
	case errors.As(err, &u):
		err = u.Err
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return hinterr.With(fmt.Errorf("%s: %w", where, err), "a registry without TLS needs --insecure")
	}
	err = fmt.Errorf("%s: %w", where, err)
	if hinterr.HintOf(err) != "" {
		return err
	}
	for _, known := range []error{hinterr.ErrUnsupported, hinterr.ErrPlatform, hinterr.ErrNotFound, hinterr.ErrTooLarge, fs.ErrPermission, syscall.ENOSPC} {
		if errors.Is(err, known) {
			return err
		}
	}
	return hinterr.With(err, "the registry, or a proxy in front of it, sent a wrong answer: try again; if that does not help, report it to its operator, or push the image again")
}

// tlsError finds what either side has against the other's certificate. With a registry on
// this machine it comes beside the answer to plain HTTP, which says less.
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

// saysTLS reports whether plain HTTP was answered with a bad request, after TLS went wrong: with a registry on
// this machine both are tried, and what is wrong with TLS is the news.
func saysTLS(status *transport.Error, err error) bool {
	var first *url.Error
	return status.StatusCode == http.StatusBadRequest && status.Request != nil && status.Request.URL.Scheme == "http" &&
		errors.As(err, &first) && strings.HasPrefix(first.URL, "https:") && !errors.Is(first, http.ErrSchemeMismatch)
}

// maxAnswerShown is how much of what a registry says of an error is shown, in bytes.
const maxAnswerShown = 500

// statusError words an HTTP status that is not a success; missing is what is said of a 404.
func statusError(where, host, missing string, e *transport.Error) error {
	text := fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode))
	for _, d := range e.Errors {
		if d.Message != "" {
			text += ": " + d.Message
		}
		if len(text) > maxAnswerShown {
			text = strings.ToValidUTF8(text[:maxAnswerShown], "") + "…"
			break
		}
	}
	if registry.BlobUnknown(e) {
		return hinterr.With(fmt.Errorf("%s: the registry accepted all blobs, but does not have them (%s)", where, text), "try again; see the registry's log for details")
	}
	switch e.StatusCode {
	case http.StatusNotFound:
		return hinterr.Errorf(hinterr.ErrNotFound, "%s: %s (%s)", where, missing, text)
	case http.StatusUnauthorized, http.StatusForbidden:
		// Docker Hub and others also answer so if the repository does not exist.
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnauthorized, "%s: no access, or no such repository (%s)", where, text),
			"docker login %s", host)
	case http.StatusTooManyRequests:
		return hinterr.With(fmt.Errorf("%s: too many requests (%s)", where, text),
			"wait, or log in for a higher limit: docker login %s", host)
	}
	return hinterr.With(fmt.Errorf("%s: the registry answers %s", where, text), "try again; see the registry's log for details")
}

// PutRegistry pushes a result. Layers that are in another repository of the same registry
// are mounted there and not sent; the manifest comes last.
func PutRegistry(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	tag, err := name.NewTag(dest.Name, registry.NameOptions(o.Insecure)...)
	if err != nil {
		return Stored{}, BadName(dest.Name, err)
	}
	shown, err := fullTag(dest.Name)
	if err != nil {
		return Stored{}, err
	}
	digest, err := push(ctx, dest, tag, r, o)
	if err != nil {
		return Stored{}, RegistryError(ctx, tag, err)
	}
	return Stored{Reference: shown + "@" + digest.String(), Digest: digest.String()}, nil
}

// push brings a result under a tag: first all blobs, then the manifests from the inside out,
// so that whatever happens the tag names the whole of the old image or of the new one.
func push(ctx context.Context, dest Ref, tag name.Tag, r Result, o Options) (v1.Hash, error) {
	u := registry.NewUploads(o.Net, tag, o.Progress)
	defer u.Task.Done()
	if r.Index != nil {
		digest, err := r.Index.Digest()
		if err != nil {
			return v1.Hash{}, err
		}
		return digest, r.pushStated(ctx, dest, tag, func(to name.Reference) error { return u.Index(ctx, to, r.Index, blob.MaxNesting) }, o)
	}
	img, done, err := portable(ctx, r.Image, false, o.Progress)
	if err != nil {
		return v1.Hash{}, err
	}
	defer done()
	m, err := img.Manifest()
	digest, derr := img.Digest()
	if err := cmp.Or(err, derr); err != nil {
		return v1.Hash{}, err
	}
	u.Expect(m)
	r.Image = img
	return digest, r.pushStated(ctx, dest, tag, func(to name.Reference) error { return u.Image(ctx, to, img) }, o)
}
