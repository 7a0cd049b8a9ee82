// A cache of layers, so that each is read once even if several images have it.

package contents

import (
	"context"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// layerCache has the layers that one command has read, by diff ID, so that each is read once, even in parallel. It
// removes the least recently used layers when it becomes too large: a list of thousands of images then needs no
// more memory than one of some dozens.
type layerCache struct {
	slots chan struct{} // one for each layer that may be read in parallel
	Most  int           // entries, of all layers together

	mu      sync.Mutex
	known   map[v1.Hash]*knownLayer
	Entries int
	clock   int64
}

// maxRemembered is the number of members of all layers in the cache, of 230 to 330 bytes each: 30 to 40
// installations of an old Debian.
const maxRemembered = 400_000

// knownLayer is a layer that was read, or that the holder of its turn reads.
type knownLayer struct {
	turn chan struct{}
	idx  *layerIndex // nil until it was read
	used int64       // time of the last use, by the cache's clock
}

func newLayerCache(atOnce int) *layerCache {
	return &layerCache{slots: make(chan struct{}, atOnce), Most: maxRemembered, known: map[v1.Hash]*knownLayer{}}
}

// Get returns a layer, and calls read if the cache does not have it. If a concurrent caller fails to read it, Get
// reads it again: the other image may be damaged, or its work was canceled.
func (c *layerCache) Get(ctx context.Context, id v1.Hash, read func() (*layerIndex, error)) (*layerIndex, error) {
	k := c.at(id)
	for _, wait := range []chan struct{}{k.turn, c.slots} {
		select {
		case wait <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		defer func() { <-wait }()
		if k.idx != nil {
			return k.idx, nil
		}
	}
	idx, err := read()
	if err == nil && idx.absent == nil { // otherwise another image may have the layer, or in a readable format
		c.keep(k, idx)
	}
	return idx, err
}

// at returns the entry of a layer.
func (c *layerCache) at(id v1.Hash) *knownLayer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	k := c.known[id]
	if k == nil {
		k = &knownLayer{turn: make(chan struct{}, 1)}
		c.known[id] = k
	}
	k.used = c.clock
	return k
}

// keep adds a layer to the cache, and removes others if there are too many.
func (c *layerCache) keep(k *knownLayer, idx *layerIndex) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.idx = idx
	c.Entries += len(idx.Entries)
	for c.Entries > c.Most {
		var oldest v1.Hash
		least := c.clock + 1
		for id, other := range c.known {
			if other != k && other.idx != nil && other.used < least {
				oldest, least = id, other.used
			}
		}
		if least > c.clock {
			return
		}
		c.Entries -= len(c.known[oldest].idx.Entries)
		delete(c.known, oldest)
	}
}
