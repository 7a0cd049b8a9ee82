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

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// remoteOptions are how registries are talked to. Credentials come from docker's config
// and its credential helpers, and from podman's auth.json (authn.DefaultKeychain); go-
// containerregistry tries again, with growing pauses, what looks temporary.
func remoteOptions(ctx context.Context, o MediaOptions) []remote.Option {
	base := remote.DefaultTransport
	if t, ok := base.(*http.Transport); ok && o.Insecure {
		t = t.Clone()
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // what Insecure is for
		base = t
	}
	opts := []remote.Option{
		remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(namingTransport{base}),
		remote.WithUserAgent(o.UserAgent),
	}
	if o.backoff != nil {
		opts = append(opts, remote.WithRetryBackoff(*o.backoff))
	}
	return opts
}

func nameOptions(o MediaOptions) []name.Option {
	if o.Insecure {
		return []name.Option{name.Insecure}
	}
	return nil
}

// namingTransport names the host in the errors of reading a body: go-containerregistry
// hands the body of a blob on as it is, and "unexpected EOF" alone helps nobody.
type namingTransport struct{ http.RoundTripper }

func (t namingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err == nil && resp.Body != nil && resp.Body != http.NoBody {
		resp.Body = namedBody{resp.Body, req.URL.Host}
	}
	return resp, err
}

type namedBody struct {
	io.ReadCloser
	host string
}

func (b namedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("registry %s: the connection broke: %w", b.host, err)
	}
	return n, err
}

// openRegistry opens an image in a registry. No layer is fetched yet.
func openRegistry(ctx context.Context, ref Ref, o MediaOptions) (*Source, error) {
	n, err := name.ParseReference(ref.Name, nameOptions(o)...)
	if err != nil {
		return nil, badName(ref.Name, err)
	}
	desc, err := remote.Get(n, remoteOptions(ctx, o)...)
	if err != nil {
		return nil, registryError(ctx, n, err)
	}
	src := &Source{Ref: ref, Digest: desc.Digest.String(), Close: func() error { return nil }}
	switch {
	case desc.MediaType.IsIndex():
		var idx v1.ImageIndex
		if idx, err = desc.ImageIndex(); err == nil {
			err = src.chooseFrom(idx, o)
		}
	case desc.MediaType.IsImage():
		var img v1.Image
		if img, err = desc.Image(); err == nil {
			err = src.take(img, o)
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

// registryError words what talking to a registry ended in: which registry and repository,
// what it answered, what to do. It never has a URL in it: some carry signatures.
func registryError(ctx context.Context, n name.Reference, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	where := fmt.Sprintf("registry %s: repository %s: %s", n.Context().RegistryStr(), n.Context().RepositoryStr(), n.Identifier())
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
	tag, err := name.NewTag(dest.Name, nameOptions(o)...)
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

func push(ctx context.Context, dest Ref, tag name.Tag, r Result, temp string, o MediaOptions) (v1.Hash, error) {
	opts := remoteOptions(ctx, o)
	updates, wait := pushProgress(tag, o.Progress)
	opts = append(opts, remote.WithProgress(updates))
	if r.Index != nil {
		err := pushTo(ctx, dest, tag, r, func(to name.Reference) error {
			defer wait()
			return remote.WriteIndex(to, mountableIndex{r.Index}, opts...)
		}, o)
		if err != nil {
			return v1.Hash{}, err
		}
		return r.Index.Digest()
	}
	img, err := portable(ctx, r.Image, false, temp, o.Progress)
	if err != nil {
		close(updates)
		wait()
		return v1.Hash{}, err
	}
	r.Image = img
	err = pushTo(ctx, dest, tag, r, func(to name.Reference) error {
		defer wait()
		return remote.Write(to, mountable{img}, opts...)
	}, o)
	if err != nil {
		return v1.Hash{}, err
	}
	return img.Digest()
}

// mountable is an image whose layers go-containerregistry recognises as coming from a
// registry, whatever they were wrapped in since: it mounts those in a repository of the
// same registry instead of sending them.
type mountable struct{ v1.Image }

func (m mountable) Layers() ([]v1.Layer, error) {
	ls, err := m.Image.Layers()
	if err != nil {
		return nil, err
	}
	out := make([]v1.Layer, len(ls))
	for n, l := range ls {
		out[n] = l
		if ml, ok := bare(l).(*remote.MountableLayer); ok {
			out[n] = ml
		}
	}
	return out, nil
}

// baseIndex is v1.ImageIndex under a name that is not one of its methods.
type baseIndex = v1.ImageIndex

// mountableIndex is an index of such images.
type mountableIndex struct{ baseIndex }

func (m mountableIndex) Image(h v1.Hash) (v1.Image, error) {
	img, err := m.baseIndex.Image(h)
	if err != nil {
		return nil, err
	}
	return mountable{img}, nil
}

func (m mountableIndex) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	idx, err := m.baseIndex.ImageIndex(h)
	if err != nil {
		return nil, err
	}
	return mountableIndex{idx}, nil
}

// Layer gives what is neither image nor index; remote.WriteIndex asks for it.
func (m mountableIndex) Layer(h v1.Hash) (v1.Layer, error) { return blobOf(m.baseIndex, h) }

// pushProgress makes the channel that go-containerregistry reports on, which it closes, and
// a function that waits for the end of it.
func pushProgress(tag name.Tag, p Progress) (chan v1.Update, func()) {
	updates := make(chan v1.Update, 64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var task Task
		var at int64
		for u := range updates {
			if u.Error != nil {
				continue
			}
			if task == nil {
				task = p.Start("push", strings.TrimPrefix(tag.Name(), name.DefaultRegistry+"/"), u.Total)
			}
			if u.Complete > at {
				task.Add(u.Complete - at)
				at = u.Complete
			}
		}
		if task != nil {
			task.Done()
		}
	}()
	return updates, func() { <-done }
}
