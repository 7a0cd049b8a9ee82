// Pushing images and indexes to a registry.

package source

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"vfix.dev/vfix/internal/hinterr"
)

// putRegistry pushes a result: first the blobs, then the manifests from the inside out, so that the tag always names
// the whole of the old image or of the new one. Layers that are in another repository of the registry are mounted.
func putRegistry(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	tag, err := name.NewTag(dest.Name, o.Net.nameOptions()...)
	if err != nil {
		return Stored{}, BadName(dest.Name, err)
	}
	shown, err := fullTag(dest.Name)
	if err != nil {
		return Stored{}, err
	}
	digest, err := push(ctx, tag, r, o)
	if err != nil {
		return Stored{}, RegistryError(ctx, tag, err)
	}
	return Stored{Reference: shown + "@" + digest.String(), Digest: digest.String()}, nil
}

func push(ctx context.Context, tag name.Tag, r Result, o Options) (digest v1.Hash, err error) {
	m := &mounting{net: o.Net, to: tag.Context(), sent: map[string]name.Reference{}}
	if from, err := name.ParseReference(r.Source.Name, o.Net.nameOptions()...); err == nil && r.Source.Transport == Registry {
		m.from = from
	}
	var t remote.Taggable
	if r.Index != nil {
		digest, err = r.Index.Digest()
		t = mountedIndex{r.Index, m}
	} else {
		img, done, perr := portable(ctx, r.Image, false, o)
		if perr != nil {
			return digest, perr
		}
		defer done()
		digest, err = img.Digest()
		t = mountedImage{img, m}
	}
	if err != nil {
		return digest, err
	}
	updates, reported := pushProgress(tag, o)
	err = remote.Push(tag, t, append(o.Net.options(ctx), remote.WithProgress(updates))...)
	<-reported
	if err != nil {
		return digest, err
	}
	m.done()
	// A proxy that requires a login may answer every request with success.
	got, err := remote.Get(tag, o.Net.options(ctx)...)
	if err == nil && got.Digest != digest {
		err = hinterr.Damaged("sent manifest %v, but the registry has %v under this name", digest, got.Digest)
	}
	return digest, err
}

// pushProgress reports a push; reported is closed when all updates are.
func pushProgress(tag name.Tag, o Options) (updates chan v1.Update, reported chan struct{}) {
	const buffered = 64
	updates, reported = make(chan v1.Update, buffered), make(chan struct{})
	go func() {
		defer close(reported)
		task := o.Progress.Start("push", strings.TrimPrefix(tag.Name(), name.DefaultRegistry+"/"), -1)
		defer task.Done()
		var done int64
		for u := range updates {
			task.Add(u.Complete - done)
			done = u.Complete
		}
	}()
	return updates, reported
}

// mounting makes go-containerregistry ask the registry for a layer in a repository that has it, before it sends the
// layer. A registry that cannot mount it begins an upload instead.
type mounting struct {
	net  *Network
	from name.Reference // of the source; nil if that is not a registry
	to   name.Repository

	mu   sync.Mutex
	sent map[string]name.Reference // what becomes of net.homes after the push
}

func (m *mounting) layers(img v1.Image) ([]v1.Layer, error) {
	all, err := img.Layers()
	if err != nil {
		return nil, err
	}
	for n, l := range all {
		h, err := l.Digest()
		if err != nil {
			return nil, err
		}
		if home := m.home(l, h); home != nil && home.Context() != m.to {
			all[n] = &remote.MountableLayer{Layer: l, Reference: home}
		}
	}
	return all, nil
}

// home is a repository of the registry that probably has the blob of a layer, nil for none.
func (m *mounting) home(l v1.Layer, h v1.Hash) name.Reference {
	key := m.to.RegistryStr() + " " + h.String()
	m.mu.Lock()
	m.sent[key] = m.to.Digest(h.String())
	m.mu.Unlock()
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	if home := m.net.homes[key]; home != nil {
		return home
	}
	if m.from != nil && inRegistry(l) && m.from.Context().RegistryStr() == m.to.RegistryStr() {
		return m.from
	}
	return nil
}

// done remembers which blobs the registry has now.
func (m *mounting) done() {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	maps.Copy(m.net.homes, m.sent)
}

type mountedImage struct {
	v1.Image
	m *mounting
}

func (i mountedImage) Layers() ([]v1.Layer, error) { return i.m.layers(i.Image) }

// imageIndex has a name that is not that of one of its methods, to be embedded.
type imageIndex interface{ v1.ImageIndex }

type mountedIndex struct {
	imageIndex
	m *mounting
}

func (i mountedIndex) Image(h v1.Hash) (v1.Image, error) {
	img, err := i.imageIndex.Image(h)
	return mountedImage{img, i.m}, err
}

func (i mountedIndex) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	idx, err := i.imageIndex.ImageIndex(h)
	return mountedIndex{idx, i.m}, err
}

// Layer gives an entry that is neither image nor index.
func (i mountedIndex) Layer(h v1.Hash) (v1.Layer, error) { return blobOf(i.imageIndex, h) }
