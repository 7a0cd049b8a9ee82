// How a blob gets into a repository (distribution-spec, "Pushing blobs"): it exists, or it is mounted from another
// repository, or it is sent. go-containerregistry queries for each blob whether it exists, and sends it again when
// the connection breaks; vfix queries how much the registry has, and continues.

package registry

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/images/blob"
)

// uploads sends blobs to one repository.
type uploads struct {
	net  *Network
	repo name.Repository
	Task *pushTask
	// retry disables mounts, and queries the registry for each blob.
	retry bool
}

func (u *uploads) blob(ctx context.Context, b blob.BlobToWrite) error {
	release := u.net.hold(u.repo.Registry, b.Digest)
	defer release()
	err := u.bring(ctx, b)
	if err != nil {
		return fmt.Errorf("blob %s: %w", blob.ShortHash(b.Digest), err)
	}
	u.net.knows(u.repo, b.Digest)
	return nil
}

func (u *uploads) bring(ctx context.Context, b blob.BlobToWrite) error {
	home, known := u.net.home(u.repo, b.Digest)
	if known && home == u.repo {
		u.Task.Add(b.Size)
		return nil
	}
	c, err := u.net.client(ctx, u.repo, true)
	if err != nil {
		return err
	}
	if from, ok := b.From.(Remote); ok && !known && !u.retry && from.Origin.RegistryStr() == u.repo.RegistryStr() {
		home, known = from.Origin, true
	}
	s := &sending{u: u, c: c, b: b}
	if known { // the answer to a mount of an existing blob is the same
		mounted, err := u.mount(ctx, b, home, s)
		if err != nil || mounted {
			return err
		}
	}
	// A small blob that is not a layer is in memory, and usually new: to send it costs as much as to query for it.
	if !s.small() || b.Layer != "" || u.retry {
		there, err := u.has(ctx, c, b)
		if err != nil {
			return err
		}
		if there {
			u.Task.Add(b.Size)
			return nil
		}
	}
	return s.run(ctx)
}

// has reports whether the repository has the blob already.
func (u *uploads) has(ctx context.Context, c *http.Client, b blob.BlobToWrite) (bool, error) {
	resp, err := request(ctx, c, http.MethodHead, blobURL(u.repo, "blobs/"+b.Digest.String()), nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if err := transport.CheckError(resp, http.StatusOK, http.StatusNotFound); err != nil {
		return false, err
	}
	return resp.StatusCode == http.StatusOK, nil
}

// mount requests the registry to mount the blob from another repository. If it refuses, it begins an upload
// instead, which s continues.
func (u *uploads) mount(ctx context.Context, b blob.BlobToWrite, from name.Repository, s *sending) (bool, error) {
	c, err := u.net.client(ctx, u.repo, true, from)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil { // no login for both: send it
		return false, nil
	}
	at := blobURL(u.repo, "blobs/uploads/")
	at.RawQuery = url.Values{"mount": {b.Digest.String()}, "from": {from.RepositoryStr()}}.Encode()
	resp, err := request(ctx, c, http.MethodPost, at, nil)
	if err != nil {
		return false, err
	}
	drain(resp)
	switch resp.StatusCode {
	case http.StatusCreated:
		u.Task.Add(b.Size)
		return true, nil
	case http.StatusAccepted:
		return false, s.next(resp)
	}
	return false, nil // some registries return an error: send it
}

// request makes a request without a body.
func request(ctx context.Context, c *http.Client, method string, u *url.URL, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	return c.Do(req)
}
