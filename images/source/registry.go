// Images in a registry: opening and pushing them, and listing repositories and tags.

package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
)

// Network is one command's access to registries: one set of connections, and one login for a repository.
type Network struct {
	insecure bool
	pause    time.Duration
	base     http.RoundTripper
	keys     authn.Keychain

	mu     sync.Mutex
	logins map[name.Repository]func() (http.RoundTripper, error)
}

func newNetwork(o Options) *Network {
	base := &roundTripper{o: o, host: map[string]*http.Transport{}}
	return &Network{
		insecure: o.Insecure, pause: o.Pause, base: transport.NewUserAgent(base, o.UserAgent), keys: keychain(o.AuthFile),
		logins: map[name.Repository]func() (http.RoundTripper, error){},
	}
}

// NameOptions are the options to parse the name of a repository; insecure allows plain HTTP.
func NameOptions(insecure bool) []name.Option {
	if insecure {
		return []name.Option{name.Insecure}
	}
	return nil
}

func (n *Network) nameOptions() []name.Option { return NameOptions(n.insecure) }

// login returns the transport for pulls from a repository. Concurrent callers wait for the same login.
func (n *Network) login(ctx context.Context, repo name.Repository) (http.RoundTripper, error) {
	n.mu.Lock()
	l := n.logins[repo]
	if l == nil {
		l = sync.OnceValues(func() (http.RoundTripper, error) {
			auth, err := authn.Resolve(ctx, n.keys, repo)
			if err != nil {
				return nil, fmt.Errorf("credentials: %w", err)
			}
			return transport.NewWithContext(ctx, repo.Registry, auth, n.base, []string{repo.Scope(transport.PullScope)})
		})
		n.logins[repo] = l
	}
	n.mu.Unlock()
	t, err := l()
	if err != nil { // the next caller tries again
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.logins, repo)
	}
	return t, err
}

// puller returns the options for go-containerregistry's reads of a repository.
func (n *Network) puller(ctx context.Context, repo name.Repository) ([]remote.Option, error) {
	t, err := n.login(ctx, repo)
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(t)}, err
}

// options returns the options for go-containerregistry's other requests. It repeats uploads that break; the transport
// repeats everything else.
func (n *Network) options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(n.base), remote.WithAuthFromKeychain(n.keys),
		remote.WithRetryStatusCodes(), remote.WithRetryBackoff(remote.Backoff{Duration: n.pause, Factor: 2, Jitter: 0.1, Steps: maxTries}),
	}
}

// get reads the manifest of a name.
func (n *Network) get(ctx context.Context, ref name.Reference) (*remote.Descriptor, error) {
	opts, err := n.puller(ctx, ref.Context())
	if err != nil {
		return nil, err
	}
	return remote.Get(ref, opts...)
}

// openRegistry opens an image in a registry. No layer is fetched yet.
func openRegistry(ctx context.Context, ref Ref, o Options) (*Source, error) {
	n, err := name.ParseReference(ref.Name, o.Net.nameOptions()...)
	if err != nil {
		return nil, BadName(ref.Name, err)
	}
	desc, err := o.Net.get(ctx, n)
	if err != nil {
		return nil, RegistryError(ctx, n, err)
	}
	from := &registryStore{ctx: ctx, net: o.Net, repo: n.Context(), o: o}
	src := &Source{Ref: ref, Digest: desc.Digest.String()}
	src.AtEnd(from.close)
	if schema1.IsSchema1(desc.MediaType) || schema1.LooksSchema1(desc.Manifest) {
		from.keep() // the layers are read to make a manifest, and again to be scanned
		err = src.takeSchema1(ctx, desc.Manifest, from, o)
		if d, ok := n.(name.Digest); ok && err == nil && d.DigestStr() != src.Digest {
			err = hinterr.Damaged("the registry sent a manifest with the digest %s", src.Digest)
		}
	} else {
		d := v1.Descriptor{MediaType: desc.MediaType, Size: int64(len(desc.Manifest)), Digest: desc.Digest}
		err = src.choose(ctx, inMemory{map[v1.Hash][]byte{d.Digest: desc.Manifest}, from}, d, o)
	}
	if err != nil {
		src.Close()
		return nil, RegistryError(ctx, n, err)
	}
	src.keep = from.keep
	return src, nil
}

// registryStore has the blobs and manifests of a repository.
type registryStore struct {
	ctx  context.Context
	net  *Network
	repo name.Repository
	o    Options

	mu   sync.Mutex
	kept map[v1.Hash]keptBlob // nil: blobs are not kept
}

func (s *registryStore) open(d v1.Descriptor) (io.ReadCloser, int64, error) {
	if d.MediaType.IsImage() || d.MediaType.IsIndex() {
		desc, err := s.net.get(s.ctx, s.repo.Digest(d.Digest.String()))
		if err != nil {
			return nil, 0, missing(err, "no manifest %v", d.Digest)
		}
		return io.NopCloser(bytes.NewReader(desc.Manifest)), desc.Size, nil
	}
	s.mu.Lock()
	k, have := s.kept[d.Digest]
	keep := s.kept != nil
	s.mu.Unlock()
	if have {
		return io.NopCloser(io.NewSectionReader(k.f, 0, k.size)), k.size, nil
	}
	rc, size, err := s.download(d.Digest)
	if err == nil && keep {
		rc, err = s.keepWhile(rc, d.Digest, size)
	}
	if err != nil {
		return nil, 0, missing(err, "registry %s: no blob %v", s.repo.RegistryStr(), d.Digest)
	}
	return rc, size, nil
}

// mountable makes a push to the same registry ask it for a layer, before it sends the layer.
func mountable(l *layer) v1.Layer {
	if from := registryOf(l); from != nil {
		return &remote.MountableLayer{Layer: l, Reference: from.repo.Digest(l.desc.Digest.String())}
	}
	return l
}

// registryOf is where a layer is read from, nil if that is not a registry.
func registryOf(l *layer) *registryStore {
	from := l.from
	if m, ok := from.(inMemory); ok {
		from = m.next
	}
	r, _ := from.(*registryStore)
	return r
}

// missing makes a 404 of a registry an ErrNotFound with another text.
func missing(err error, format string, args ...any) error {
	if NotThere(err) {
		return hinterr.Errorf(hinterr.ErrNotFound, format, args...)
	}
	return err
}

// NotThere reports whether an error means that a registry does not have the content.
func NotThere(err error) bool {
	var e *transport.Error
	return errors.As(err, &e) && e.StatusCode == http.StatusNotFound
}
