package registry

// For the tests of this package alone.

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
)

type Redirects struct{ Next http.RoundTripper }

// Wire sends requests to next as a network with these options does, without tries after the first.
func Wire(next http.RoundTripper, o Options) http.RoundTripper { return &wire{next: next, o: &o} }

// Retrier repeats requests to next as a network with these options does.
func Retrier(next http.RoundTripper, o Options) http.RoundTripper { return &retrier{next, &o} }

// Pings sends requests to next, and each for a login once.
func Pings(next http.RoundTripper) http.RoundTripper { return &pings{next: next} }

// The limits of answers.
const (
	MaxErrorAnswer = maxErrorAnswer
	MaxList        = maxList
	LeastBlob      = leastBlob
	LeastAnswer    = leastAnswer
	SmallBlob      = smallBlob
)

// Blob uploads a blob; retry is after a refused manifest.
func (u *uploads) Blob(ctx context.Context, b blob.BlobToWrite, retry bool) error {
	u.retry = retry
	return u.blob(ctx, b)
}

func (r Redirects) RoundTrip(req *http.Request) (*http.Response, error) {
	return redirects{r.Next}.RoundTrip(req)
}

var (
	CheckRedirect = checkRedirect
	RetryAfter    = retryAfter
	IsTemporary   = isTemporary
	HostTLS       = hostTLS
	LocalRealm    = localRealm
	Uploaded      = uploaded
)

var ErrPlainHTTP = errPlainHTTP

// Dial makes connections with dial.
func (r *Network) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	r.common.DialContext = dial
}

// Answer sends plain HTTP to rt, and refuses all other connections.
func (r *Network) Answer(rt http.RoundTripper) {
	r.common.RegisterProtocol("http", rt)
	r.Dial(func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	})
}

// Learn makes a network learn that a repository has a blob, and take a turn with it.
func (r *Network) Learn(repo name.Repository, h v1.Hash) {
	r.hold(repo.Registry, h)()
	r.knows(repo, h)
}

// Login logs in to a repository.
func (r *Network) Login(repo name.Repository) error {
	_, err := r.client(context.Background(), repo, false)
	return err
}

// Remembered returns the size of a network's caches.
func (r *Network) Remembered() (logins, homes, same int) {
	for _, all := range r.homes {
		same = max(same, len(all))
	}
	return len(r.logins), len(r.homes), same
}

// Home is home.
func (r *Network) Home(repo name.Repository, h v1.Hash) (name.Repository, bool) {
	return r.home(repo, h)
}

// KeepContent keeps content as a blob that is wanted; first is called before it is read.
func (r *Network) KeepContent(h v1.Hash, content []byte, first func()) {
	_, mine := r.kept.open(h)
	rc := r.kept.keep(&resuming{digest: h, size: int64(len(content)), body: io.NopCloser(bytes.NewReader(content))}, mine)
	first()
	io.Copy(io.Discard, rc)
	rc.Close()
}

// Begun says whether a reader keeps a blob that is wanted.
func (r *Network) Begun(h v1.Hash) bool { return r.kept.blobs[h].begun }

// OpenKept opens a blob that is kept; or nil.
func (r *Network) OpenKept(h v1.Hash) io.ReadCloser {
	rc, _ := r.kept.open(h)
	return rc
}

// Keychain searches for credentials in file, or in the usual files, with a time limit for helpers.
func Keychain(file string, time time.Duration) authn.ContextKeychain { return keychain{file, time} }
