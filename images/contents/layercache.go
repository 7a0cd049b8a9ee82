// A cache of layers, so that each is read once however many images have it.

package contents

import (
	"context"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// layerCache is what one command knows of layers, by diff ID: however many images have a
// layer, and however many of them are read at once, it is read once. It forgets what was
// not asked for the longest time when it gets too large, so that a list of thousands of
// images takes no more memory than one of some dozens.
type layerCache struct {
	slots chan struct{} // one for each layer that may be read at once
	Most  int           // entries, of all layers together

	mu      sync.Mutex
	known   map[v1.Hash]*knownLayer
	Entries int
	clock   int64
}

// maxRemembered is how many members of layers are remembered, of 200 to 300 bytes each: those
// of 30 to 40 userlands of an old Debian.
const maxRemembered = 400_000

// knownLayer is a layer that was read, or is being read until ready is closed.
type knownLayer struct {
	ready chan struct{}
	idx   *layerIndex
	err   error
	used  int64 // when it was asked for last, by the cache's clock
}

func newLayerCache(atOnce int) *layerCache {
	return &layerCache{slots: make(chan struct{}, atOnce), Most: maxRemembered, known: map[v1.Hash]*knownLayer{}}
}

// Get gives a layer, which read reads if nobody has. Where somebody else does and fails, it
// is read again: the other image may have been the one that is damaged or was cancelled.
func (c *layerCache) Get(ctx context.Context, id v1.Hash, read func() (*layerIndex, error)) (*layerIndex, error) {
	for {
		k, mine := c.claim(id)
		if mine {
			return c.fill(ctx, id, k, read)
		}
		select {
		case <-k.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if k.err == nil {
			return k.idx, nil
		}
	}
}

// claim finds a layer, or makes the caller the one who reads it.
func (c *layerCache) claim(id v1.Hash) (k *knownLayer, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	k = c.known[id]
	if k == nil {
		k, mine = &knownLayer{ready: make(chan struct{})}, true
		c.known[id] = k
	}
	k.used = c.clock
	return k, mine
}

// fill reads a layer and lets those know who wait for it.
func (c *layerCache) fill(ctx context.Context, id v1.Hash, k *knownLayer, read func() (*layerIndex, error)) (*layerIndex, error) {
	var idx *layerIndex
	var err error
	select {
	case c.slots <- struct{}{}:
		idx, err = read()
		<-c.slots
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.idx, k.err = idx, err; err != nil {
		delete(c.known, id)
	} else {
		c.Entries += len(k.idx.Entries)
		c.forget(k)
	}
	close(k.ready)
	return k.idx, k.err
}

// forget makes room, but keeps what was just read.
func (c *layerCache) forget(keep *knownLayer) {
	for c.Entries > c.Most {
		var oldest v1.Hash
		var k *knownLayer
		for id, other := range c.known {
			if other != keep && other.idx != nil && (k == nil || other.used < k.used) {
				oldest, k = id, other
			}
		}
		if k == nil {
			return
		}
		delete(c.known, oldest)
		c.Entries -= len(k.idx.Entries)
	}
}
