package contents_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
)

// The cache reads a layer once for all callers, again after a failure, and removes old layers.
func TestLayerCache(t *testing.T) {
	c := contents.NewLayerCache(4)
	c.Most = 8
	id := func(n int) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprint(n)} }
	var mu sync.Mutex
	reads := map[int]int{}
	get := func(n int, err error) (*contents.LayerIndex, error) {
		return c.Get(context.Background(), id(n), func() (*contents.LayerIndex, error) {
			mu.Lock()
			reads[n]++
			mu.Unlock()
			time.Sleep(time.Millisecond)
			return &contents.LayerIndex{Entries: make([]*contents.Entry, 4)}, err
		})
	}
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			if _, err := get(n%2, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if reads[0] != 1 || reads[1] != 1 {
		t.Errorf("read %v", reads)
	}
	bad := errors.New("damaged")
	if _, err := get(2, bad); err != bad {
		t.Errorf("got %v", err)
	}
	get(0, nil)
	get(2, nil) // 12 entries: 1 has been unused for longest
	get(0, nil)
	get(1, nil)
	c.Most = 3 // the layer that was read last stays, even if it is too large
	get(3, nil)
	get(3, nil)
	c.Most = 4
	if reads[3] != 1 || c.Entries != 4 {
		t.Errorf("read %v, %d entries", reads, c.Entries)
	}
	if reads[0] != 1 || reads[1] != 2 || reads[2] != 2 || c.Entries > c.Most {
		t.Errorf("read %v, %d entries", reads, c.Entries)
	}
	// Who waits for a layer waits no longer than its command.
	ended, end := context.WithCancelCause(t.Context())
	end(bad)
	if _, err := c.Get(t.Context(), id(6), func() (*contents.LayerIndex, error) { return c.Get(ended, id(6), nil) }); err != bad {
		t.Errorf("ended: got %v", err)
	}
	// Another layer is used while one is read.
	if _, err := c.Get(t.Context(), id(4), func() (*contents.LayerIndex, error) { return get(5, nil) }); err != nil || reads[5] != 1 || c.Entries != 4 {
		t.Errorf("read %v, %d entries, %v", reads, c.Entries, err)
	}
}
