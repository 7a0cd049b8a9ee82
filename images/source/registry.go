// Images in a registry: opening and pushing them, and listing repositories and tags.

package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
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
	// homes are repositories that got a blob, by registry and digest: other repositories of the registry mount it.
	homes map[string]name.Reference
}

func newNetwork(o Options) *Network {
	base := &roundTripper{o: o, host: map[string]*http.Transport{}}
	return &Network{
		insecure: o.Insecure, pause: o.Pause, base: transport.NewUserAgent(base, o.UserAgent), keys: keychain(o.AuthFile),
		logins: map[name.Repository]func() (http.RoundTripper, error){}, homes: map[string]name.Reference{},
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
	from := &registryStore{ctx: ctx, net: o.Net, repo: n.Context(), o: o, kept: map[v1.Hash]*keptBlob{}}
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

	mu      sync.Mutex
	keeping bool
	kept    map[v1.Hash]*keptBlob
}

func (s *registryStore) open(d v1.Descriptor) (io.ReadCloser, int64, error) {
	if d.MediaType.IsImage() || d.MediaType.IsIndex() {
		desc, err := s.net.get(s.ctx, s.repo.Digest(d.Digest.String()))
		if err != nil {
			return nil, 0, missing(err, "no manifest %v", d.Digest)
		}
		return io.NopCloser(bytes.NewReader(desc.Manifest)), desc.Size, nil
	}
	if rc := s.openKept(d); rc != nil {
		return rc, d.Size, nil
	}
	rc, size, err := s.download(d.Digest)
	if err != nil {
		return nil, 0, missing(err, "registry %s: no blob %v", s.repo.RegistryStr(), d.Digest)
	}
	return s.keepWhile(rc, d), size, nil
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

// putRegistry pushes a result: first the blobs, then the manifests from the inside out, so that the tag always names
// the whole of the old image or of the new one. Layers that are in another repository of the registry are mounted.
func putRegistry(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	tag, err := name.NewTag(dest.Name, o.Net.nameOptions()...)
	if err != nil {
		return Stored{}, BadName(dest.Name, err)
	}
	shown, err := fullTag(dest.Name)
	if err != nil {
		return Stored{}, err
	}
	digest, err := push(ctx, tag, r, o)
	if err != nil {
		return Stored{}, RegistryError(ctx, tag, err)
	}
	return Stored{Reference: shown + "@" + digest.String(), Digest: digest.String()}, nil
}

func push(ctx context.Context, tag name.Tag, r Result, o Options) (digest v1.Hash, err error) {
	m := &mounting{net: o.Net, to: tag.Context(), sent: map[string]name.Reference{}}
	if from, err := name.ParseReference(r.Source.Name, o.Net.nameOptions()...); err == nil && r.Source.Transport == Registry {
		m.from = from
	}
	var t remote.Taggable
	if r.Index != nil {
		digest, err = r.Index.Digest()
		t = mountedIndex{r.Index, m}
	} else {
		img, done, perr := portable(ctx, r.Image, false, o)
		if perr != nil {
			return digest, perr
		}
		defer done()
		digest, err = img.Digest()
		t = mountedImage{img, m}
	}
	if err != nil {
		return digest, err
	}
	updates, reported := pushProgress(tag, o)
	err = remote.Push(tag, t, append(o.Net.options(ctx), remote.WithProgress(updates))...)
	<-reported
	if err != nil {
		return digest, err
	}
	m.done()
	// A proxy that requires a login may answer every request with success.
	got, err := remote.Get(tag, o.Net.options(ctx)...)
	if err == nil && got.Digest != digest {
		err = hinterr.Damaged("sent manifest %v, but the registry has %v under this name", digest, got.Digest)
	}
	return digest, err
}

// pushProgress reports a push; reported is closed when all updates are.
func pushProgress(tag name.Tag, o Options) (updates chan v1.Update, reported chan struct{}) {
	const buffered = 64
	updates, reported = make(chan v1.Update, buffered), make(chan struct{})
	go func() {
		defer close(reported)
		task := o.Progress.Start("push", strings.TrimPrefix(tag.Name(), name.DefaultRegistry+"/"), -1)
		defer task.Done()
		var done int64
		for u := range updates {
			task.Add(u.Complete - done)
			done = u.Complete
		}
	}()
	return updates, reported
}

// mounting makes go-containerregistry ask the registry for a layer in a repository that has it, before it sends the
// layer. A registry that cannot mount it begins an upload instead.
type mounting struct {
	net  *Network
	from name.Reference // of the source; nil if that is not a registry
	to   name.Repository

	mu   sync.Mutex
	sent map[string]name.Reference // what becomes of net.homes after the push
}

func (m *mounting) layers(img v1.Image) ([]v1.Layer, error) {
	all, err := img.Layers()
	if err != nil {
		return nil, err
	}
	for n, l := range all {
		h, err := l.Digest()
		if err != nil {
			return nil, err
		}
		if home := m.home(h); home != nil && home.Context() != m.to {
			all[n] = &remote.MountableLayer{Layer: l, Reference: home}
		}
	}
	return all, nil
}

// home is a repository of the registry that probably has a blob, nil for none.
func (m *mounting) home(h v1.Hash) name.Reference {
	key := m.to.RegistryStr() + " " + h.String()
	m.mu.Lock()
	m.sent[key] = m.to.Digest(h.String())
	m.mu.Unlock()
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	if home := m.net.homes[key]; home != nil {
		return home
	}
	if m.from != nil && m.from.Context().RegistryStr() == m.to.RegistryStr() {
		return m.from
	}
	return nil
}

// done remembers which blobs the registry has now.
func (m *mounting) done() {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	maps.Copy(m.net.homes, m.sent)
}

type mountedImage struct {
	v1.Image
	m *mounting
}

func (i mountedImage) Layers() ([]v1.Layer, error) { return i.m.layers(i.Image) }

// imageIndex has a name that is not that of one of its methods, to be embedded.
type imageIndex interface{ v1.ImageIndex }

type mountedIndex struct {
	imageIndex
	m *mounting
}

func (i mountedIndex) Image(h v1.Hash) (v1.Image, error) {
	img, err := i.imageIndex.Image(h)
	return mountedImage{img, i.m}, err
}

func (i mountedIndex) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	idx, err := i.imageIndex.ImageIndex(h)
	return mountedIndex{idx, i.m}, err
}

// Layer gives an entry that is neither image nor index.
func (i mountedIndex) Layer(h v1.Hash) (v1.Layer, error) { return blobOf(i.imageIndex, h) }

// blobOf gives an entry of an index that is neither image nor index, if the index supports that
// (go-containerregistry's do, without an interface for it).
func blobOf(idx v1.ImageIndex, h v1.Hash) (v1.Layer, error) {
	if l, ok := idx.(interface {
		Layer(v1.Hash) (v1.Layer, error)
	}); ok {
		return l.Layer(h)
	}
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "no blob %v in the index", h)
}

// EachRepository calls f for the repositories of a registry whose names are prefix, or begin with it and a slash; ""
// is for all.
func EachRepository(ctx context.Context, host, prefix string, o Options, f func(name.Repository) error) error {
	o = o.WithDefaults()
	reg, err := name.NewRegistry(host, o.Net.nameOptions()...)
	if err != nil {
		return BadName(host, err)
	}
	wrong := func(err error) error {
		err = registryError(ctx, reg, "list of repositories", "the registry has none", err)
		return hinterr.With(err, "name one of its repositories: docker://%s/REPOSITORY", reg.RegistryStr())
	}
	p, err := remote.NewPuller(o.Net.options(ctx)...)
	if err != nil {
		return err
	}
	list, err := p.Catalogger(ctx, reg)
	if err != nil {
		return wrong(err)
	}
	return eachPage(ctx, wrong, list, func(page *remote.Catalogs) (string, error) {
		for _, repo := range page.Repos {
			if prefix != "" && repo != prefix && !strings.HasPrefix(repo, prefix+"/") {
				continue
			}
			if err := f(reg.Repo(repo)); err != nil {
				return "", err
			}
		}
		return page.Next, nil
	})
}

// maxPages is how many pages a list may have: a million images if a page has 100.
const maxPages = 10_000

// eachPage calls f for each page of a registry's list; f returns the address of the next one. Some registries name
// the same page again and again, or one more without an end.
func eachPage[P any](ctx context.Context, wrong func(error) error, list interface {
	HasNext() bool
	Next(context.Context) (P, error)
}, f func(P) (string, error)) error {
	seen := map[string]bool{}
	for list.HasNext() {
		page, err := list.Next(ctx)
		if err != nil {
			return wrong(err)
		}
		next, err := f(page)
		if err != nil {
			return err
		}
		if next != "" && seen[next] || len(seen) == maxPages {
			return wrong(hinterr.Damaged("the registry's list repeats itself, or has more than %d pages", maxPages))
		}
		seen[next] = true
	}
	return nil
}

// isTag is the grammar of tags (distribution-spec, "Pulling manifests"); notImage those of other tools' statements
// and signatures (distribution-spec, "Referrers Tag Schema"; cosign, SIGNATURE_SPEC.md).
var (
	isTag    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`) })
	notImage = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`) })
)

// EachTags calls f for each page of the tags of a repository that are of images.
func EachTags(ctx context.Context, repo name.Repository, o Options, f func([]name.Tag) error) error {
	o = o.WithDefaults()
	wrong := func(err error) error {
		return registryError(ctx, repo.Registry, "repository "+repo.RepositoryStr()+", list of tags", "no such repository", err)
	}
	p, err := remote.NewPuller(o.Net.options(ctx)...)
	if err != nil {
		return err
	}
	list, err := p.Lister(ctx, repo)
	if err != nil {
		return wrong(err)
	}
	return eachPage(ctx, wrong, list, func(page *remote.Tags) (string, error) {
		var tags []name.Tag
		for _, t := range page.Tags {
			if isTag().MatchString(t) && !notImage().MatchString(t) {
				tags = append(tags, repo.Tag(t))
			}
		}
		return page.Next, f(tags)
	})
}
