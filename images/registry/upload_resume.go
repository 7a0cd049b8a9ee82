// The upload of one blob (distribution-spec, "Pushing blobs"): a small blob in one request, a large one so that it
// resumes after a broken connection.

package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/images/blob"
)

// sending is the upload of one blob.
type sending struct {
	u        *uploads
	c        *http.Client
	b        blob.BlobToWrite
	location *url.URL     // of the upload; nil: none has begun
	offset   int64        // bytes that the registry has
	reported atomic.Int64 // bytes reported to the task
}

// smallBlob is the size up to which the request that ends the upload sends the whole blob, in bytes: it is cheap
// to repeat.
const smallBlob = 64 << 10

func (s *sending) small() bool { return 0 < s.b.Size && s.b.Size <= smallBlob }

// retriable is an error after which another try may succeed: the registry does not continue the upload, or not at
// this offset, or lost what was sent.
type retriable struct{ error }

func (r retriable) Unwrap() error { return r.error }

// maxResumes bounds how often an upload is resumed, however much progress each attempt makes.
const maxResumes = 100

// run sends the blob, with as many tries as necessary and allowed by the policy.
func (s *sending) run(ctx context.Context) error {
	best, try := int64(0), 0
	for n := 0; ; n++ {
		resp, err := s.attempt(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.small() && s.there(ctx) { // some registries refuse a blob that they have
			return nil
		}
		// Requests without a body have been repeated as often as the policy allows.
		if !errors.As(err, new(retriable)) || n == maxResumes {
			return err
		}
		if s.resume(ctx); s.offset > best {
			best, try = s.offset, 0
		}
		try++
		more, waitErr := s.u.net.o.again(ctx, try, resp, s.u.repo.RegistryStr(), "blob "+blob.ShortHash(s.b.Digest), err.Error(), fmt.Sprintf(", from byte %d", s.offset))
		if !more {
			return err
		}
		if waitErr != nil {
			return waitErr
		}
		// A request that seemed to fail may have succeeded.
		if s.there(ctx) {
			return nil
		}
	}
}

// there reports whether the registry has the blob after all; the task gets the bytes not yet reported.
func (s *sending) there(ctx context.Context) bool {
	there, err := s.u.has(ctx, s.c, s.b)
	if err != nil || !there {
		return false
	}
	s.u.Task.Add(s.b.Size - s.reported.Swap(s.b.Size))
	return true
}

// attempt begins an upload if there is none, sends the missing bytes and closes it; it sends a small blob with the
// request that closes it. The answer is not nil if it explains the error.
func (s *sending) attempt(ctx context.Context) (*http.Response, error) {
	if s.location == nil {
		resp, err := request(ctx, s.c, http.MethodPost, blobURL(s.u.repo, "blobs/uploads/"), nil)
		if err != nil {
			return nil, err
		}
		defer drain(resp)
		if err := transport.CheckError(resp, http.StatusAccepted); err != nil {
			return resp, err
		}
		if err := s.next(resp); err != nil {
			return nil, err
		}
	}
	var last []byte
	switch {
	case s.small() && s.offset == 0:
		body, err := s.open()
		if err != nil {
			return nil, err
		}
		last, err = io.ReadAll(body)
		body.Close()
		if err != nil {
			return nil, err
		}
	case s.offset < s.b.Size || s.b.Size == 0:
		if resp, err := s.patch(ctx); err != nil {
			return resp, err
		}
	}
	return s.end(ctx, last)
}

// end closes the upload, with the last bytes of the blob.
func (s *sending) end(ctx context.Context, last []byte) (*http.Response, error) {
	at := *s.location
	q := at.Query()
	q.Set("digest", s.b.Digest.String())
	at.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, at.String(), bytes.NewReader(last))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := s.c.Do(req)
	if err != nil {
		return nil, err
	}
	defer drain(resp)
	if err := s.judge(resp, http.StatusCreated); err != nil {
		return resp, err
	}
	s.u.Task.Add(int64(len(last)))
	return resp, nil
}

// open opens the blob with verification.
func (s *sending) open() (io.ReadCloser, error) {
	rc, err := s.b.Open()
	if err != nil {
		return nil, err
	}
	return blob.Verified(rc, s.b.Digest, s.b.Size)
}

// patch sends the blob from offset on.
func (s *sending) patch(ctx context.Context) (*http.Response, error) {
	body, err := s.open()
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if _, err := io.CopyN(io.Discard, body, s.offset); err != nil {
		return nil, err
	}
	src := &source{Reader: body, s: s, at: s.offset}
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, s.location.String(), io.NopCloser(src))
	if err != nil {
		return nil, err
	}
	req.ContentLength = s.b.Size - s.offset
	if req.ContentLength == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	if s.offset > 0 {
		req.Header.Set("Content-Range", fmt.Sprintf("%d-%d", s.offset, s.b.Size-1))
	}
	resp, err := s.c.Do(req)
	if bad := src.err.Load(); bad != nil {
		if err == nil {
			drain(resp)
		}
		return nil, *bad
	}
	if err != nil { // net/http's error for a connection that the other side closed depends on its state
		return nil, retriable{err}
	}
	defer drain(resp)
	err = s.judge(resp, http.StatusAccepted, http.StatusNoContent, http.StatusCreated)
	if err != nil && temporaryStatus[resp.StatusCode] {
		err = retriable{err}
	}
	if err != nil {
		return resp, err
	}
	return nil, s.next(resp)
}

// judge turns an unexpected answer into an error.
func (s *sending) judge(resp *http.Response, want ...int) error {
	err := transport.CheckError(resp, want...)
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestedRangeNotSatisfiable:
		if err != nil {
			return retriable{fmt.Errorf("the registry does not continue the upload: %w", err)}
		}
	}
	return err
}

// resume queries how much of the blob the registry has; without an answer, or with none of the blob, the upload
// begins again.
func (s *sending) resume(ctx context.Context) {
	at := s.location
	s.location, s.offset = nil, 0
	if at == nil {
		return
	}
	resp, err := request(ctx, s.c, http.MethodGet, at, nil)
	if err != nil {
		return
	}
	drain(resp)
	has := uploaded(resp.Header.Get("Range"))
	if resp.StatusCode != http.StatusNoContent || has == 0 || has > s.b.Size {
		return
	}
	s.location, s.offset = at, has
	if resp.Header.Get("Location") != "" && s.next(resp) != nil {
		s.location, s.offset = nil, 0
	}
}

// uploaded parses the range of an upload that the registry has, 0-LAST, and returns its size in bytes.
// distribution sends 0-0 for no bytes.
func uploaded(text string) int64 {
	last, ok := strings.CutPrefix(strings.TrimPrefix(text, "bytes="), "0-")
	n, err := strconv.ParseInt(last, 10, 63) // n + 1 must not overflow
	if !ok || err != nil || n <= 0 {
		return 0
	}
	return n + 1
}

// next sets the address of the upload's next request from an answer.
func (s *sending) next(resp *http.Response) error {
	loc := resp.Header.Get("Location")
	if loc == "" {
		return errors.New("the registry gives no URL for the upload")
	}
	u, err := resp.Request.URL.Parse(loc)
	if err != nil {
		return errors.New("the registry gives an invalid URL for the upload")
	}
	if err := mayLead(resp.Request.Context(), resp.Request.URL, u); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	s.location = u
	return nil
}

// source is the content to send. It reports each byte to the task once, and stores its own error, which another
// try does not fix.
type source struct {
	io.Reader
	s   *sending
	at  int64
	err atomic.Pointer[error]
}

func (r *source) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.at += int64(n)
	if reported := r.s.reported.Load(); r.at > reported && r.s.reported.CompareAndSwap(reported, r.at) {
		r.s.u.Task.Add(r.at - reported)
	}
	if err != nil && err != io.EOF {
		r.err.CompareAndSwap(nil, &err)
	}
	return n, err
}
