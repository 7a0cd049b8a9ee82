// Downloads of blobs: they resume after a broken connection, and blobs that will be read again stay on disk.

package source

import (
	"context"
	"fmt"
	"io"
	"net/http"
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
	if err := r.request(); err != nil || !s.keeps.Load() {
		return r, err
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
	if r.at += int64(n); err == io.EOF && r.at < r.size {
		err = io.ErrUnexpectedEOF
	}
	ctx := r.req.Context()
	for err != nil && err != io.EOF {
		if r.at-r.since >= enough {
			r.tries, r.since = 0, r.at
		}
		reason := plain(err, r.req.URL.Host)
		switch r.tries++; {
		case ctx.Err() != nil:
			return n, context.Cause(ctx)
		case r.tries == maxTries:
			return n, fmt.Errorf("%s: after %d bytes: %w", r.what, r.at, reason)
		}
		progress.Note(r.o.Progress, "%s: after %d bytes: %v: it resumes", r.what, r.at, reason)
		if err = sleep(ctx, r.o.Pause<<(r.tries-1)); err == nil {
			err = r.request()
		}
	}
	return n, err
}

// request asks for the blob, or for the rest of it. A registry that sends no part of a blob sends all of it again;
// whoever verifies the blob finds out if it sent another part.
func (r *resuming) request() error {
	if r.at > 0 && r.size > 0 { // not every registry reads a range without an end
		r.req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", r.at, r.size-1))
	}
	resp, err := r.client.Do(r.req)
	if err != nil {
		return err
	}
	err = transport.CheckError(resp, http.StatusOK, http.StatusPartialContent)
	if err == nil && resp.StatusCode == http.StatusOK {
		if _, err = io.CopyN(io.Discard, resp.Body, r.at); err == io.EOF { // for which Read would take the end of the blob
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		resp.Body.Close()
		return err
	}
	if r.body == nil {
		r.size = resp.ContentLength
	} else {
		r.body.Close()
	}
	r.body = resp.Body
	return nil
}

func (r *resuming) Close() error { return r.body.Close() }

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
