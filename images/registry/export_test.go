package registry

// What only the tests of this package see.

import (
	"bytes"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

type (
	Guard = guard
)

var (
	CheckRedirect = checkRedirect
	RetryAfter    = retryAfter
	IsTemporary   = isTemporary
)

var ErrPlainHTTP = errPlainHTTP

// Learn has a network learn of a blob in a repository, and take a turn with it.
func (r *Network) Learn(repo name.Repository, h v1.Hash) {
	r.hold(repo.Registry, h)()
	r.knows(repo, h)
}

// Remembered is how much a network remembers.
func (r *Network) Remembered() (logins, homes, busy, same int) {
	for _, all := range r.homes {
		same = max(same, len(all))
	}
	return len(r.logins), len(r.homes), len(r.busy), same
}

// Home is home.
func (r *Network) Home(repo name.Repository, h v1.Hash) (name.Repository, bool) {
	return r.home(repo, h)
}

// KeepContent keeps content as a blob that is wanted.
func (r *Network) KeepContent(h v1.Hash, content []byte) {
	_, mine := r.kept.open(h)
	rc := r.kept.keep(&resuming{digest: h, size: int64(len(content)), body: io.NopCloser(bytes.NewReader(content))}, mine)
	io.Copy(io.Discard, rc)
	rc.Close()
}

// OpenKept opens a blob that is kept; nil where it is not.
func (r *Network) OpenKept(h v1.Hash) io.ReadCloser {
	rc, _ := r.kept.open(h)
	return rc
}
