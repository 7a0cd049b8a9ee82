// The blobs and manifests of an image in a registry. After a broken connection only the missing rest is fetched
// again: go-containerregistry starts again, or fails once the first byte has been read.

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// Remote is the place in a registry of an image. It implements blob.Blobs.
type Remote struct {
	Ctx context.Context
	Net *Network
	// Repo is the repository to read from, Origin the one in the image's name: they differ if Repo is a mirror's.
	Repo, Origin name.Repository
}

// Open opens a blob or manifest, or its kept copy.
func (at Remote) Open(d v1.Descriptor) (io.ReadCloser, int64, error) {
	rc, mine := at.Net.kept.open(d.Digest)
	if rc != nil {
		return rc, d.Size, nil
	}
	r := &resuming{at: at, kind: "blob", digest: d.Digest, size: d.Size}
	if d.MediaType.IsImage() || d.MediaType.IsIndex() {
		r.kind, r.accept = "manifest", string(d.MediaType)
	}
	var err error
	if r.body, err = r.open(); err != nil {
		return nil, 0, err
	}
	at.Net.knows(at.Repo, d.Digest)
	if mine != nil {
		return at.Net.kept.keep(r, mine), r.size, nil
	}
	return r, r.size, nil
}

// resuming reads a blob, and resumes when a connection breaks.
type resuming struct {
	at     Remote
	kind   string // "blob" or "manifest"
	accept string // the media type of a manifest
	digest v1.Hash
	size   int64 // in bytes, from the manifest or the first answer; -1: not known
	body   io.ReadCloser
	pos    int64 // bytes read
	// tries is the number of tries without progress, since the position of the last progress.
	tries int
	since int64
}

// worthwhile is how many more bytes count as progress, which resets tries.
const worthwhile = 1 << 20

func (r *resuming) Read(p []byte) (int, error) {
	for {
		n, err := r.body.Read(p)
		r.pos += int64(n)
		if r.size >= 0 && r.pos > r.size {
			return n, hinterr.Damaged("%s %v: more than %d bytes", r.kind, r.digest, r.size)
		}
		if err == io.EOF && r.pos < r.size {
			err = io.ErrUnexpectedEOF
		}
		if err == io.EOF || !isTemporary(err) || r.at.Ctx.Err() != nil {
			return n, err
		}
		if err := r.again(err); err != nil {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

// again opens the rest of the blob after a broken connection.
func (r *resuming) again(broken error) error {
	if r.pos-r.since >= worthwhile {
		r.tries = 0
	}
	r.since = r.pos
	for {
		r.tries++
		more, err := r.at.Net.o.again(r.at.Ctx, r.tries, nil, r.at.Repo.RegistryStr(), r.kind+" "+blob.ShortHash(r.digest), broken.Error(), fmt.Sprintf(", from byte %d", r.pos))
		if !more {
			return fmt.Errorf("%s %v: %w", r.kind, r.digest, broken)
		}
		if err != nil {
			return err
		}
		body, err := r.open()
		if err == nil {
			r.body.Close()
			r.body = body
			return nil
		}
		if !isTemporary(err) {
			return err
		}
		broken = err
	}
}

// open requests the blob from byte pos on. A registry without ranges sends all of it, and the beginning is
// discarded: the reader verifies the digest.
func (r *resuming) open() (io.ReadCloser, error) {
	resp, err := r.ask(r.pos)
	if err == nil && r.pos > 0 && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		drain(resp)
		resp, err = r.ask(0)
	}
	if err != nil {
		return nil, err
	}
	if err := r.check(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp.Body, nil
}

// ask requests the blob from byte pos on.
func (r *resuming) ask(pos int64) (*http.Response, error) {
	c, err := r.at.Net.client(r.at.Ctx, r.at.Repo, false)
	if err != nil {
		return nil, err
	}
	u := blobURL(r.at.Repo, r.kind+"s/"+r.digest.String())
	req, err := http.NewRequestWithContext(r.at.Ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity") // the digest is of these bytes
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if pos > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", pos))
	}
	resp, err := c.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) { // its URL may have a signature
		err = fmt.Errorf("registry %s: %w", r.at.Repo.RegistryStr(), u.Err)
	}
	return resp, err
}

// check checks the answer and advances its body to byte pos.
func (r *resuming) check(resp *http.Response) error {
	if resp.StatusCode == http.StatusNotFound && r.kind == "blob" {
		return hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "blob %v: the registry does not have it", r.digest), "the registry has only a part of the image: push it again")
	}
	if err := transport.CheckError(resp, http.StatusOK, http.StatusPartialContent); err != nil {
		return err
	}
	if resp.StatusCode == http.StatusPartialContent {
		var from, to, size int64
		got := resp.Header.Get("Content-Range")
		if fmt.Sscanf(got, "bytes %d-%d/%d", &from, &to, &size); from != r.pos || size != r.size {
			return hinterr.Damaged("%s %v: got the range %q, want bytes %d-%d/%d", r.kind, r.digest, got, r.pos, r.size-1, r.size)
		}
		return nil
	}
	if r.size < 0 {
		r.size = resp.ContentLength
	}
	if resp.ContentLength >= 0 && resp.ContentLength != r.size {
		return hinterr.Damaged("%s %v: got %d bytes, want %d", r.kind, r.digest, resp.ContentLength, r.size)
	}
	_, err := io.CopyN(io.Discard, resp.Body, r.pos)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (r *resuming) Close() error { return r.body.Close() }

// blobURL returns the address of a part of a repository (distribution-spec, "Endpoints").
func blobURL(repo name.Repository, what string) *url.URL {
	return &url.URL{Scheme: repo.Scheme(), Host: repo.RegistryStr(), Path: "/v2/" + repo.RepositoryStr() + "/" + what}
}
