// A cache of layers, so that each is read once however many images have it.

package contents

import (
	"context"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// layerCache is what one command knows of layers, by diff ID: however many images have a
// layer, and however many of them are read at once, it is read once. When it gets too large, it
// forgets the least recently used layers, so that a list of thousands of images needs no more
// memory than one of some dozens.
type layerCache struct {
	slots chan struct{} // one for each layer that may be read at once
	Most  int           // entries, of all layers together

	mu      sync.Mutex
	known   map[v1.Hash]*knownLayer
	Entries int
	clock   int64
}

// maxRemembered is how many members of layers are remembered, of 230 to 330 bytes each: those
// of 30 to 40 userlands of an old Debian.
const maxRemembered = 400_000

// knownLayer is a layer that was read, or that the holder of its turn reads.
type knownLayer struct {
	turn chan struct{}
	idx  *layerIndex // nil until it was read
	used int64       // when it was asked for last, by the cache's clock
}

func newLayerCache(atOnce int) *layerCache {
	return &layerCache{slots: make(chan struct{}, atOnce), Most: maxRemembered, known: map[v1.Hash]*knownLayer{}}
}

// Get gives a layer, and calls read if nobody has read it. If another caller reads it and fails, it
// is read again: the other image may be damaged, or its work was cancelled.
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
	if err == nil && idx.absent == nil { // another image may have the layer, or in a format that can be read
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

// keep remembers a layer that was read, and makes room for it.
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
