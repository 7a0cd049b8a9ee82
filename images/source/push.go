// Pushing images and indexes to a registry.

package source

import (
	"context"
	"strings"

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
	var t interface {
		remote.Taggable
		Digest() (v1.Hash, error)
	} = r.Index
	if r.Index == nil {
		img, done, err := portable(ctx, r.Image, Registry, o)
		if err != nil {
			return digest, err
		}
		defer done()
		t = img
	}
	if digest, err = t.Digest(); err != nil {
		return digest, err
	}
	updates, reported := pushProgress(tag, o)
	err = remote.Push(tag, t, append(o.Net.options(ctx), remote.WithProgress(updates))...)
	<-reported
	if err != nil {
		return digest, err
	}
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
