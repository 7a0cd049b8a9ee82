// Pushing images and indexes.

package registry

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// blobsAtOnce is the number of blobs of an image that are sent in parallel, as in docker.
const blobsAtOnce = 4

// NewUploads begins the uploads to the repository of a tag.
func NewUploads(net *Network, tag name.Tag, p progress.Reporter) *uploads {
	return &uploads{net: net, repo: tag.Context(), Task: &pushTask{
		p: p, name: strings.TrimPrefix(tag.Name(), name.DefaultRegistry+"/"), size: -1,
	}}
}

// Expect adds the size of an image to the progress.
func (u *uploads) Expect(m *v1.Manifest) {
	u.Task.size = m.Config.Size
	for _, l := range m.Layers {
		u.Task.size += l.Size
	}
}

// Image pushes an image under a tag or digest.
func (u *uploads) Image(ctx context.Context, ref name.Reference, img v1.Image) error {
	c := blob.Collection{}
	d, err := c.AddImage(img)
	if err != nil {
		return err
	}
	delete(c, d.Digest) // the manifest is not a blob in a registry
	if err := u.blobs(ctx, c); err != nil {
		return err
	}
	err = u.Manifest(ctx, ref, img)
	if !BlobUnknown(err) {
		return err
	}
	// Blobs are missing that were mounted, or that existed when this command last checked: query the registry for
	// each blob, and send the missing ones.
	u.net.forget(u.repo.Registry, c)
	sure := &uploads{net: u.net, repo: u.repo, Task: u.Task, retry: true}
	if err := sure.blobs(ctx, c); err != nil {
		return err
	}
	return sure.Manifest(ctx, ref, img)
}

// BlobUnknown reports whether a registry refused a manifest because of a missing blob (distribution-spec, "Error
// Codes").
func BlobUnknown(err error) bool {
	var e *transport.Error
	return errors.As(err, &e) && slices.ContainsFunc(e.Errors, func(d transport.Diagnostic) bool {
		return d.Code == transport.ManifestBlobUnknownErrorCode || d.Code == transport.BlobUnknownErrorCode
	})
}

// Bytes uploads contents from memory.
func (u *uploads) Bytes(ctx context.Context, contents ...[]byte) error {
	c := blob.Collection{}
	for _, data := range contents {
		h, _, err := v1.SHA256(bytes.NewReader(data))
		if err != nil {
			return err
		}
		c.AddBytes(h, data)
	}
	return u.blobs(ctx, c)
}

// blobs uploads a collection, several blobs in parallel. The first error cancels the others.
func (u *uploads) blobs(ctx context.Context, c blob.Collection) error {
	g, all := errgroup.WithContext(ctx)
	g.SetLimit(blobsAtOnce)
	for _, b := range c.Sorted() {
		g.Go(func() error { return u.blob(all, b) })
	}
	return g.Wait()
}

// Manifest uploads a manifest under a name. An answer without its digest is not yet a success: a proxy that
// requires a login answers every request with a page.
func (u *uploads) Manifest(ctx context.Context, ref name.Reference, t remote.Taggable) error {
	opts, err := u.net.Options(ctx, u.repo, true)
	if err != nil {
		return err
	}
	raw, err := t.RawManifest()
	if err != nil {
		return err
	}
	want, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	put := &putAnswer{path: blobURL(u.repo, "manifests/"+ref.Identifier()).Path}
	if err := remote.Put(ref, t, append(opts, remote.WithContext(context.WithValue(ctx, putKey{}, put)))...); err != nil {
		return err
	}
	if put.digest == "" {
		put.digest = "none"
		if d, err := remote.Get(ref, opts...); err == nil { // not HEAD, whose answer may lack it as well
			put.digest = d.Digest.String()
		}
	}
	if put.digest != want.String() {
		return hinterr.With(hinterr.Damaged("manifest %v was sent, but the registry has %s under this name", want, put.digest), misconfigured)
	}
	return nil
}

// putAnswer is a value of a request's context: it gets the digest from the answer to the PUT of a path.
type putAnswer struct{ path, digest string }

type putKey struct{}

func (p *putAnswer) note(req *http.Request, resp *http.Response) {
	if req.URL.Path == p.path { // not that of a list of referrers, which go-containerregistry puts after it
		p.digest = resp.Header.Get(digestHeader)
	}
}

// digestHeader has the digest of a manifest (distribution-spec, "Pulling manifests").
const digestHeader = "Docker-Content-Digest"

// Index pushes an index with all of its images.
func (u *uploads) Index(ctx context.Context, ref name.Reference, idx v1.ImageIndex, depth int) error {
	if depth < 0 {
		return hinterr.Damaged("indexes nested more than %d levels deep", blob.MaxNesting)
	}
	m, err := idx.IndexManifest()
	if err != nil {
		return err
	}
	for _, e := range m.Manifests {
		if err := u.entry(ctx, idx, e, depth); err != nil {
			return &Part{Name: "entry " + blob.ShortHash(e.Digest), Err: err}
		}
	}
	return u.Manifest(ctx, ref, idx)
}

// Part is an error with the part of the pushed content that it is about.
type Part struct {
	Name string
	Err  error
}

func (p *Part) Error() string { return p.Name + ": " + p.Err.Error() }
func (p *Part) Unwrap() error { return p.Err }

// entry pushes an entry of an index, unless the repository has its manifest, and thus also the contents.
func (u *uploads) entry(ctx context.Context, idx v1.ImageIndex, e v1.Descriptor, depth int) error {
	ref := u.repo.Digest(e.Digest.String())
	if e.MediaType.IsIndex() || e.MediaType.IsImage() {
		if there, err := u.hasManifest(ctx, e); err != nil || there {
			return err
		}
	}
	switch {
	case e.MediaType.IsIndex():
		sub, err := idx.ImageIndex(e.Digest)
		if err != nil {
			return err
		}
		return u.Index(ctx, ref, sub, depth-1)
	case e.MediaType.IsImage():
		img, err := idx.Image(e.Digest)
		if err != nil {
			return err
		}
		return u.Image(ctx, ref, img)
	}
	l, err := blob.BlobOf(idx, e.Digest)
	if err != nil {
		return err
	}
	return u.blob(ctx, blob.BlobToWrite{Digest: e.Digest, Size: e.Size, Open: l.Compressed})
}

func (u *uploads) hasManifest(ctx context.Context, e v1.Descriptor) (bool, error) {
	c, err := u.net.client(ctx, u.repo, true)
	if err != nil {
		return false, err
	}
	resp, err := request(ctx, c, http.MethodHead, blobURL(u.repo, "manifests/"+e.Digest.String()),
		http.Header{"Accept": {string(e.MediaType)}})
	if err != nil {
		return false, err
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK, nil
}

// pushTask is the progress of a push. It begins with the first byte: until the registry answers there is nothing
// to report.
type pushTask struct {
	p    progress.Reporter
	name string
	size int64
	once sync.Once
	task progress.Task
}

func (t *pushTask) Add(n int64) {
	t.once.Do(func() { t.task = progress.Start(t.p, "push", t.name, t.size) })
	t.task.Add(n)
}

func (t *pushTask) Done() {
	t.once.Do(func() { t.task = progress.Silent{} })
	t.task.Done()
}

// NotThere reports whether an error means that a registry does not have the content.
func NotThere(err error) bool {
	var e *transport.Error
	return errors.As(err, &e) && e.StatusCode == http.StatusNotFound
}
