// Downloads of blobs: they resume after a broken connection, and blobs that will be read again stay on disk.

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/progress"
)

// download opens a blob and gives its length in bytes, below 0 if the registry does not say it.
func (s *registryStore) download(h v1.Hash) (io.ReadCloser, int64, error) {
	t, err := s.net.login(s.ctx, s.repo)
	if err != nil {
		return nil, 0, err
	}
	r := &resuming{
		ctx: s.ctx, client: &http.Client{Transport: t, CheckRedirect: checkRedirect}, p: s.o.Progress, pause: s.o.Pause, what: fmt.Sprintf("registry %s: blob %s", s.repo.RegistryStr(), blob.ShortHash(h)),
		// distribution-spec, "Pulling blobs"
		url: &url.URL{Scheme: s.repo.Scheme(), Host: s.repo.RegistryStr(), Path: "/v2/" + s.repo.RepositoryStr() + "/blobs/" + h.String()},
	}
	resp, err := r.get(0)
	if err != nil {
		return nil, 0, err
	}
	r.body, r.size = resp.Body, resp.ContentLength
	return r, r.size, nil
}

// resuming is a download. When its connection breaks, it asks for the rest.
type resuming struct {
	ctx    context.Context
	client *http.Client
	url    *url.URL
	p      progress.Reporter
	pause  time.Duration // after the first break
	what   string        // its name in messages

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
	for {
		if r.at-r.since >= enough {
			r.tries, r.since = 0, r.at
		}
		if r.tries++; r.tries == maxTries || r.ctx.Err() != nil {
			return n, r.broken(err)
		}
		progress.Note(r.p, "%s: the connection broke after %d bytes: %v: it resumes", r.what, r.at, err)
		if err := sleep(r.ctx, r.pause<<(r.tries-1)); err != nil {
			return n, err
		}
		if err = r.resume(); err == nil {
			return n, nil
		}
	}
}

// broken is the error of a download that does not go on.
func (r *resuming) broken(err error) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	var status *transport.Error
	if errors.As(err, &status) { // its own text has a URL
		err = fmt.Errorf("the registry answers %d %s", status.StatusCode, http.StatusText(status.StatusCode))
	}
	return fmt.Errorf("%s: the connection broke after %d bytes: %w", r.what, r.at, err)
}

// get requests the blob from the byte number at on.
func (r *resuming) get(at int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.url.String(), nil)
	if err != nil {
		return nil, err
	}
	switch {
	case at > 0 && r.size > 0:
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, r.size-1))
	case at > 0:
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", at))
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, http.StatusOK, http.StatusPartialContent); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// resume requests the rest. A registry that sends no part of a blob sends all of it again.
func (r *resuming) resume() error {
	resp, err := r.get(r.at)
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		resp, err = r.get(0)
	}
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		_, err = io.CopyN(io.Discard, resp.Body, r.at)
	} else if got, want := resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", r.at); !strings.HasPrefix(got, want) {
		err = fmt.Errorf("got the range %q, want %s", got, want)
	}
	if err != nil {
		resp.Body.Close()
		return err
	}
	r.body.Close()
	r.body = resp.Body
	return nil
}

func (r *resuming) Close() error { return r.body.Close() }

// keptBlob is a blob in a temporary file.
type keptBlob struct {
	f    *os.File
	size int64 // in bytes
}

// keep makes reads of blobs also store them, until close.
func (s *registryStore) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[v1.Hash]keptBlob{}
	}
}

func (s *registryStore) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kept {
		k.f.Close()
	}
	s.kept = nil
	return nil
}

// keepReader reads a blob and stores it on the way.
type keepReader struct {
	blob.CountingReader
	rc   io.Closer
	done func(read int64)
}

func (r *keepReader) Close() error {
	r.done(r.N)
	return r.rc.Close()
}

// keepWhile stores a blob of size bytes while it is read. Others get it once all of it was read; they verify it again.
func (s *registryStore) keepWhile(rc io.ReadCloser, h v1.Hash, size int64) (io.ReadCloser, error) {
	f, err := blob.TempFile()
	if err != nil {
		return nil, err
	}
	done := func(read int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, have := s.kept[h]; have || read != size || s.kept == nil {
			f.Close()
			return
		}
		s.kept[h] = keptBlob{f, size}
	}
	return &keepReader{blob.CountingReader{R: io.TeeReader(rc, f)}, rc, done}, nil
}
