package images

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// blobsAtOnce is how many blobs of an image are sent at once, as docker does.
const blobsAtOnce = 4

// push brings a result under a tag: first all blobs, then the manifests from the inside out,
// so that whatever happens the tag names the whole of the old image or of the new one.
func push(ctx context.Context, dest Ref, tag name.Tag, r Result, temp string, o MediaOptions) (v1.Hash, error) {
	u := newUploads(o.net, tag, o.Progress)
	defer u.task.Done()
	if r.Index != nil {
		err := r.pushStated(ctx, dest, tag, func(to name.Reference) error { return u.index(ctx, to, r.Index, maxNesting) }, o)
		if err != nil {
			return v1.Hash{}, err
		}
		return r.Index.Digest()
	}
	img, err := portable(ctx, r.Image, false, temp, o.Progress)
	if err != nil {
		return v1.Hash{}, err
	}
	m, err := img.Manifest()
	if err != nil {
		return v1.Hash{}, err
	}
	u.expect(m)
	r.Image = img
	if err := r.pushStated(ctx, dest, tag, func(to name.Reference) error { return u.image(ctx, to, img) }, o); err != nil {
		return v1.Hash{}, err
	}
	return img.Digest()
}

// newUploads begins what goes to the repository of a tag.
func newUploads(net *registries, tag name.Tag, p Progress) *uploads {
	return &uploads{net: net, repo: tag.Context(), task: &pushTask{
		p: p, name: strings.TrimPrefix(tag.Name(), name.DefaultRegistry+"/"), size: -1,
	}}
}

// expect says how many bytes an image has, for the progress.
func (u *uploads) expect(m *v1.Manifest) {
	u.task.size = m.Config.Size
	for _, l := range m.Layers {
		u.task.size += l.Size
	}
}

// image pushes an image under a tag or digest.
func (u *uploads) image(ctx context.Context, ref name.Reference, img v1.Image) error {
	c := collection{}
	d, err := c.addImage(img)
	if err != nil {
		return err
	}
	delete(c, d.Digest) // the manifest is no blob in a registry
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	from := map[v1.Hash]*name.Repository{}
	for _, l := range layers {
		h, err := l.Digest()
		if err != nil {
			return err
		}
		switch l := bare(l).(type) {
		case *remoteLayer:
			from[h] = &l.at.origin
		case *remote.MountableLayer:
			repo := l.Reference.Context()
			from[h] = &repo
		}
	}
	if err := u.blobs(ctx, c, from); err != nil {
		return err
	}
	return u.manifest(ctx, ref, img)
}

// blobs brings all of a collection into the repository, several at once. The first error
// ends the others.
func (u *uploads) blobs(ctx context.Context, c collection, from map[v1.Hash]*name.Repository) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, blobsAtOnce)
	var wg sync.WaitGroup
	for _, b := range c.sorted() {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := u.blob(ctx, b, from[b.digest]); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (u *uploads) manifest(ctx context.Context, ref name.Reference, t remote.Taggable) error {
	opts, err := u.net.options(ctx, u.repo, true)
	if err != nil {
		return err
	}
	return remote.Put(ref, t, opts...)
}

// index pushes an index with all that is in it.
func (u *uploads) index(ctx context.Context, ref name.Reference, idx v1.ImageIndex, depth int) error {
	if depth < 0 {
		return damaged("more than %d indexes in one another", maxNesting)
	}
	m, err := idx.IndexManifest()
	if err != nil {
		return err
	}
	for _, e := range m.Manifests {
		if err := u.entry(ctx, idx, e, depth); err != nil {
			return fmt.Errorf("entry %s of the index: %w", shortHash(e.Digest), err)
		}
	}
	return u.manifest(ctx, ref, idx)
}

// entry pushes what an index lists, unless the repository has its manifest: then it has all
// that is named there.
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
		return u.index(ctx, ref, sub, depth-1)
	case e.MediaType.IsImage():
		img, err := idx.Image(e.Digest)
		if err != nil {
			return err
		}
		return u.image(ctx, ref, img)
	}
	l, err := blobOf(idx, e.Digest)
	if err != nil {
		return err
	}
	return u.blob(ctx, blobToWrite{digest: e.Digest, size: e.Size, open: l.Compressed}, nil)
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

// pushTask is the progress of a push. It begins when the first byte is done: until the
// registry has answered there is nothing to tell.
type pushTask struct {
	p    Progress
	name string
	size int64
	once sync.Once
	task Task
}

func (t *pushTask) Add(n int64) {
	t.once.Do(func() { t.task = startTask(t.p, "push", t.name, t.size) })
	t.task.Add(n)
}

func (t *pushTask) Done() {
	t.once.Do(func() { t.task = silent{} })
	t.task.Done()
}

// atomicError keeps the first error that it is given.
type atomicError struct{ p atomic.Pointer[error] }

func (e *atomicError) set(err error) { e.p.CompareAndSwap(nil, &err) }

func (e *atomicError) get() error {
	if p := e.p.Load(); p != nil {
		return *p
	}
	return nil
}
