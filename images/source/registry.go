// Images in a registry.

package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// Network is one command's access to registries: one set of connections, and a login for each repository.
type Network struct {
	o       Options  // without Net
	hosts   sync.Map // *http.Transport by host, as written in a URL
	clients sync.Map // *http.Client by name.Repository
}

// NameOptions are the options to parse the name of a repository; insecure allows plain HTTP.
func NameOptions(insecure bool) []name.Option {
	if insecure {
		return []name.Option{name.Insecure}
	}
	return nil
}

func (n *Network) backoff() remote.Backoff {
	return remote.Backoff{Duration: n.o.Pause, Factor: 2, Jitter: 0.1, Steps: maxTries}
}

// again reports whether go-containerregistry repeats a request.
func (n *Network) again(err error) bool {
	if !isTemporary(err) {
		return false
	}
	progress.Note(n.o.Progress, "temporary error: %v", plain(err, ""))
	return true
}

// busy are the answers of a registry that may work the next time.
var busy = []int{
	http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// client returns the client for pulls from a repository.
func (n *Network) client(ctx context.Context, repo name.Repository) (*http.Client, error) {
	if c, ok := n.clients.Load(repo); ok {
		return c.(*http.Client), nil
	}
	auth, err := authn.Resolve(ctx, authn.DefaultKeychain, repo)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	patient := transport.NewRetry(n, transport.WithRetryBackoff(n.backoff()), transport.WithRetryPredicate(n.again), transport.WithRetryStatusCodes(busy...))
	t, err := transport.NewWithContext(ctx, repo.Registry, auth, transport.NewUserAgent(patient, n.o.UserAgent), []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	c := &http.Client{Transport: t}
	n.clients.Store(repo, c)
	return c, nil
}

// options returns the options for go-containerregistry's pushes and lists.
func (n *Network) options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(n), remote.WithUserAgent(n.o.UserAgent), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithRetryBackoff(n.backoff()), remote.WithRetryPredicate(n.again),
	}
}

// get reads the manifest of a name.
func (n *Network) get(ctx context.Context, ref name.Reference) (*remote.Descriptor, error) {
	c, err := n.client(ctx, ref.Context())
	if err != nil {
		return nil, err
	}
	return remote.Get(ref, remote.WithContext(ctx), remote.WithTransport(c.Transport))
}

// openRegistry opens an image in a registry. No layer is fetched yet.
func openRegistry(ctx context.Context, ref Ref, o Options) (*Source, error) {
	n, err := name.ParseReference(ref.Name, NameOptions(o.Insecure)...)
	if err != nil {
		return nil, BadName(ref.Name, err)
	}
	src, err := imageIn(ctx, n, o)
	if err != nil {
		return nil, registryError(ctx, n.Context().Registry, objectOf(n), err)
	}
	src.Ref = ref
	return src, nil
}

func imageIn(ctx context.Context, n name.Reference, o Options) (*Source, error) {
	desc, err := o.Net.get(ctx, n)
	if err != nil {
		return nil, err
	}
	from := &registryStore{ctx: ctx, net: o.Net, repo: n.Context()}
	src := &Source{Digest: desc.Digest.String(), keep: func() { from.keeps.Store(true) }}
	src.AtEnd(from.close)
	if schema1.IsSchema1(desc.Manifest) {
		src.Keep() // the layers are read to make a manifest, and again to be scanned
		err = src.takeSchema1(ctx, desc.Manifest, from, o)
		if d, ok := n.(name.Digest); ok && err == nil && d.DigestStr() != src.Digest {
			err = hinterr.Damaged("the registry sent a manifest with the digest %s", src.Digest)
		}
	} else {
		err = src.choose(from, v1.Descriptor{MediaType: desc.MediaType, Size: desc.Size, Digest: desc.Digest, Data: desc.Manifest}, o)
	}
	if err != nil {
		src.Close()
		return nil, err
	}
	return src, nil
}

// registryStore has the blobs and manifests of a repository.
type registryStore struct {
	ctx   context.Context
	net   *Network
	repo  name.Repository
	keeps atomic.Bool // blobs are kept when they are read
	kept  sync.Map    // *os.File by v1.Hash
}

func (s *registryStore) open(d v1.Descriptor) (rc io.ReadCloser, err error) {
	if f, ok := s.kept.Load(d.Digest); ok {
		return io.NopCloser(io.NewSectionReader(f.(*os.File), 0, math.MaxInt64)), nil
	}
	what := "blob"
	if d.MediaType.IsImage() || d.MediaType.IsIndex() {
		what = "manifest"
		var desc *remote.Descriptor
		if desc, err = s.net.get(s.ctx, s.repo.Digest(d.Digest.String())); err == nil {
			rc = io.NopCloser(bytes.NewReader(desc.Manifest))
		}
	} else {
		rc, err = s.download(d.Digest)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %v: %w", what, d.Digest, plain(err, s.repo.RegistryStr()))
	}
	return rc, nil
}

// mountable makes a push to the same registry ask it for a layer, before it sends the layer.
func mountable(l *layer) v1.Layer {
	if from, ok := l.from.(*registryStore); ok {
		return &remote.MountableLayer{Layer: l, Reference: from.repo.Digest(l.desc.Digest.String())}
	}
	return l
}

// putRegistry pushes a result: first the blobs, then the manifests from the inside out, so that the tag always names
// the whole of the old image or of the new one. Layers that are in another repository of the registry are mounted.
func putRegistry(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	tag, err := name.NewTag(dest.Name, NameOptions(o.Insecure)...)
	if err != nil {
		return Stored{}, BadName(dest.Name, err)
	}
	shown, err := fullTag(dest.Name)
	if err != nil {
		return Stored{}, err
	}
	var top manifest = r.Image
	if r.Index != nil {
		top = r.Index
	}
	updates, reported := pushProgress(tag, o)
	err = remote.Push(tag, top, append(o.Net.options(ctx), remote.WithProgress(updates))...)
	<-reported
	if err != nil {
		return Stored{}, registryError(ctx, tag.Registry, objectOf(tag), err)
	}
	digest, err := top.Digest()
	return Stored{Reference: shown + "@" + digest.String(), Digest: digest.String()}, err
}

// pushProgress reports a push; reported is closed when all updates are.
func pushProgress(tag name.Tag, o Options) (updates chan v1.Update, reported chan struct{}) {
	const buffered = 64
	updates, reported = make(chan v1.Update, buffered), make(chan struct{})
	go func() {
		defer close(reported)
		task := o.Progress.Start("push", objectOf(tag), -1)
		defer task.Done()
		var done int64
		for u := range updates {
			task.Add(u.Complete - done)
			done = u.Complete
		}
	}()
	return updates, reported
}
