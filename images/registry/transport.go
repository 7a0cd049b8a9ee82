// One command's connections to registries: clients, logins, and the repositories that have a blob.

package registry

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/progress"
)

// Network is one command's access to registries: one set of connections, one login for a repository, and the known
// places of blobs. go-containerregistry implements the protocol and the credentials; between it and the network
// are, from the top:
//
//	pings     caches which login a registry requires
//	redirects follows them
//	retrier   retries temporary errors, after the pause that the registry requests
//	wire      refuses, delays, counts, reports and ends a request, and limits the answer
//	hosts     configures TLS by a host's directories of certificates
type Network struct {
	o    Options
	Base http.RoundTripper
	keys authn.Keychain
	// common is the transport of hosts without a directory of certificates.
	common *http.Transport

	// mirrors returns the mirrors of Docker Hub.
	mirrors func() []string

	mu sync.Mutex
	// logins create the client of a repository once, by its name and the requested scopes.
	logins map[string]func() (*http.Client, error)
	// homes are the repositories that have a blob, by registry and digest.
	homes map[string][]name.Repository

	// turns are locked during the upload of a blob: a blob of several images is sent once, and then mounted.
	// Different blobs rarely share one of so many.
	turns [1024]sync.Mutex

	kept keeper
}

// The limits of the cached facts about registries, so that a list of a million repositories needs no more memory
// than one of a thousand. A removed login costs one request, a removed home of a blob one or two.
const (
	maxLogins   = 1000
	maxHomes    = 50_000
	maxSameBlob = 64 // repositories with the same blob
)

// makeRoom clears a map that is full.
func makeRoom[V any](m map[string]V, most int) {
	if len(m) >= most {
		clear(m)
	}
}

// Options are the user's options about registries.
type Options struct {
	Insecure  bool // allows plain HTTP and unverified TLS
	Progress  progress.Reporter
	UserAgent string
	// AuthFile is the file of credentials; "" for those of docker and podman.
	AuthFile string
	// Stall is the time after which a request without progress ends.
	Stall time.Duration
	Retry RetryPolicy
	Meter *Meter // nil: not counted
	// PerSecond is the maximum number of requests to each host per second; 0 means no limit.
	PerSecond float64
}

// Default time limits.
const (
	// DefaultStall is the default of Options.Stall: a registry has to store a blob of several GB, and hash it,
	// before it answers a PUT.
	DefaultStall = 2 * time.Minute
	dialTimeout  = 30 * time.Second
	// handshakeTimeout and idleTimeout are those of go-containerregistry's transport.
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	maxIdlePerHost   = 16
)

// NewNetwork returns the connections that one command shares: logins, mirrors, limits, counters.
func NewNetwork(o Options) *Network {
	r := &Network{
		o: o, keys: keychain{o.AuthFile, o.Stall},
		mirrors: sync.OnceValue(func() []string { return HubMirrors(daemonConfigs()) }),
		logins:  map[string]func() (*http.Client, error){}, homes: map[string][]name.Repository{},
		kept: keeper{blobs: map[v1.Hash]*keptBlob{}},
	}
	h := newHosts(o.Insecure)
	r.common = h.common
	t := redirects{&retrier{&wire{next: h, o: &r.o}, &r.o}}
	r.Base = transport.NewUserAgent(&pings{next: t}, o.UserAgent)
	return r
}

// client returns the client for a repository, logged in to pull or, with push, to push; from are other
// repositories of the same registry to pull from. Concurrent callers wait for the same login.
func (r *Network) client(ctx context.Context, repo name.Repository, push bool, from ...name.Repository) (*http.Client, error) {
	scopes := []string{repo.Scope(transport.PullScope)}
	if push {
		scopes[0] = repo.Scope(transport.PushScope)
	}
	for _, f := range from {
		scopes = append(scopes, f.Scope(transport.PullScope))
	}
	key := repo.RegistryStr() + " " + strings.Join(scopes, " ")
	r.mu.Lock()
	l := r.logins[key]
	if l == nil {
		makeRoom(r.logins, maxLogins)
		l = sync.OnceValues(func() (*http.Client, error) { return r.login(ctx, repo, scopes) })
		r.logins[key] = l
	}
	r.mu.Unlock()
	c, err := l()
	if err != nil { // the next caller tries again
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.logins, key)
	}
	return c, err
}

func (r *Network) login(ctx context.Context, repo name.Repository, scopes []string) (*http.Client, error) {
	auth, err := authn.Resolve(ctx, r.keys, repo)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	t, err := transport.NewWithContext(ctx, repo.Registry, auth, r.Base, scopes)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: t, CheckRedirect: checkRedirect}, nil
}

// Options returns the options for go-containerregistry's calls about a repository. They disable its retries: the
// client's transport retries.
func (r *Network) Options(ctx context.Context, repo name.Repository, push bool) ([]remote.Option, error) {
	c, err := r.client(ctx, repo, push)
	if err != nil {
		return nil, err
	}
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(c.Transport),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}),
	}, nil
}

func blobKey(reg name.Registry, h v1.Hash) string { return reg.RegistryStr() + " " + h.String() }

// knows records that a repository has a blob.
func (r *Network) knows(repo name.Repository, h v1.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := blobKey(repo.Registry, h)
	all := r.homes[key]
	if slices.Contains(all, repo) {
		return
	}
	makeRoom(r.homes, maxHomes)
	if len(all) == maxSameBlob { // at most one is used, one of the latest
		all = slices.Delete(all, 0, maxSameBlob/2)
	}
	r.homes[key] = append(all, repo)
}

// forget removes the known places of blobs.
func (r *Network) forget(reg name.Registry, c blob.Collection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range c {
		delete(r.homes, blobKey(reg, h))
	}
}

// home returns a repository of the registry that has a blob: repo itself if possible.
func (r *Network) home(repo name.Repository, h v1.Hash) (name.Repository, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.homes[blobKey(repo.Registry, h)]
	if len(all) == 0 || slices.Contains(all, repo) {
		return repo, len(all) > 0
	}
	return all[0], true
}

// hold waits until no other caller uploads the blob to the registry; release ends the turn.
func (r *Network) hold(reg name.Registry, h v1.Hash) (release func()) {
	sum := fnv.New32()
	io.WriteString(sum, blobKey(reg, h))
	m := &r.turns[sum.Sum32()%uint32(len(r.turns))]
	m.Lock()
	return m.Unlock
}

// NameOptions returns the options to parse the name of a repository; insecure allows plain HTTP.
func NameOptions(insecure bool) []name.Option {
	if insecure {
		return []name.Option{name.Insecure}
	}
	return nil
}

// newTransport returns go-containerregistry's transport, with time limits for new connections.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext,
		ForceAttemptHTTP2:     true,
		IdleConnTimeout:       idleTimeout,
		TLSHandshakeTimeout:   handshakeTimeout,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   maxIdlePerHost,
	}
}

// CatalogOptions returns the options for go-containerregistry's call about all repositories of a registry, which
// logs in itself.
func (r *Network) CatalogOptions(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(r.Base), remote.WithAuthFromKeychain(r.keys),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}),
	}
}
