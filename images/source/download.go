// Downloads of blobs: they resume after a broken connection, and blobs that will be read again stay on disk.

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/progress"
)

// download opens a blob. It is not verified.
func (s *registryStore) download(h v1.Hash) (io.ReadCloser, error) {
	client, err := s.net.client(s.ctx, s.repo)
	if err != nil {
		return nil, err
	}
	// distribution-spec, "Pulling blobs"
	at := url.URL{Scheme: s.repo.Scheme(), Host: s.repo.RegistryStr(), Path: "/v2/" + s.repo.RepositoryStr() + "/blobs/" + h.String()}
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	r := &resuming{o: s.net.o, client: client, req: req, what: "blob " + blob.ShortHash(h)}
	resp, err := r.send()
	if err != nil {
		return nil, err
	}
	r.body, r.size = resp.Body, resp.ContentLength
	if !s.keeps.Load() {
		return r, nil
	}
	f, err := blob.TempFile()
	return &keepReader{resuming: r, copied: io.TeeReader(r, f), to: f, s: s, h: h}, err
}

// resuming is a download. When its connection breaks, it asks for the rest.
type resuming struct {
	o      Options
	client *http.Client
	req    *http.Request
	what   string // its name in messages

	body io.ReadCloser
	at   int64 // bytes so far
	size int64 // below 0: not known
	// The connection broke tries times since the byte number since.
	tries int
	since int64
}

// enough is how many bytes must pass before the tries are counted from the start again.
const enough = 1 << 20

func (r *resuming) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.at += int64(n)
	whole := err == io.EOF && (r.size < 0 || r.at >= r.size)
	if err == nil || whole {
		return n, err
	}
	ctx := r.req.Context()
	for {
		if r.at-r.since >= enough {
			r.tries, r.since = 0, r.at
		}
		if r.tries++; ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		if r.tries == maxTries {
			return n, fmt.Errorf("%s: after %d bytes: %w", r.what, r.at, r.plain(err))
		}
		progress.Note(r.o.Progress, "%s: after %d bytes: %v: it resumes", r.what, r.at, r.plain(err))
		if err := sleep(ctx, r.o.Pause<<(r.tries-1)); err != nil {
			return n, err
		}
		if err = r.resume(); err == nil {
			return n, nil
		}
	}
}

func (r *resuming) plain(err error) error { return plain(err, r.req.URL.Host, "no such blob") }

func (r *resuming) send() (*http.Response, error) {
	resp, err := r.client.Do(r.req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, http.StatusOK, http.StatusPartialContent); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// resume requests the rest. A registry that sends no part of a blob sends all of it again; whoever verifies the blob
// finds out if it sent another part.
func (r *resuming) resume() error {
	last := "" // not every registry reads a range without an end
	if r.size > 0 {
		last = fmt.Sprint(r.size - 1)
	}
	r.req.Header.Set("Range", fmt.Sprintf("bytes=%d-%s", r.at, last))
	resp, err := r.send()
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		if _, err := io.CopyN(io.Discard, resp.Body, r.at); err != nil {
			resp.Body.Close()
			return err
		}
	}
	r.body.Close()
	r.body = resp.Body
	return nil
}

func (r *resuming) Close() error { return r.body.Close() }

// checkRedirect refuses a redirect by which a public registry could use this machine's access to its own network, its
// own services and the metadata services of clouds, as go-containerregistry does. Credentials are only sent to the
// registry itself.
func checkRedirect(req *http.Request, via []*http.Request) error {
	const maxRedirects = 10 // as in net/http
	isPrivate := func(host string) bool {
		ip, _ := netip.ParseAddr(host) // a name has none
		ip = ip.Unmap()
		return isLoopback(host) || ip.IsPrivate() || ip.IsLinkLocalUnicast()
	}
	from, to := via[0].URL.Hostname(), req.URL.Hostname()
	switch {
	case len(via) >= maxRedirects:
		return errors.New("too many redirects")
	case from != to && isPrivate(to) && !isPrivate(from):
		return fmt.Errorf("redirected to %s, a private address: not followed", to)
	}
	return nil
}

// keepReader reads a blob and stores it on the way. Others get it once all of it was read; they verify it again.
type keepReader struct {
	*resuming
	copied io.Reader
	to     *os.File
	s      *registryStore
	h      v1.Hash
}

func (r *keepReader) Read(p []byte) (int, error) { return r.copied.Read(p) }

func (r *keepReader) Close() error {
	surplus := true
	if r.at == r.size {
		_, surplus = r.s.kept.LoadOrStore(r.h, r.to)
	}
	if surplus {
		r.to.Close()
	}
	return r.resuming.Close()
}

// close removes the blobs that were kept.
func (s *registryStore) close() error {
	s.kept.Range(func(_, f any) bool {
		f.(*os.File).Close()
		return true
	})
	return nil
}
