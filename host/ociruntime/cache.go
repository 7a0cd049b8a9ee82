// Listing and pruning the cache of vfix-runtime.

package ociruntime

import (
	"fmt"

	"vfix.dev/vfix/host/store"
)

// Cached is what was listed in the cache, or removed from it.
type Cached struct {
	Dir     string
	Entries []store.Entry
	// Others is what is left there of versions of vfix whose cache has another layout.
	Others []store.Layout
}

// Bytes is what the entries take on the disk together.
func (c *Cached) Bytes() int64 {
	var n int64
	for _, e := range c.Entries {
		n += e.Size
	}
	return n
}

// CacheActions are what Cache does.
var CacheActions = []string{"list", "size", "prune", "clear"}

// Cache lists the cache in a folder ("" for the configuration's), or removes entries. limit
// is how many bytes prune leaves; a negative one is the cache's own bound.
func Cache(action, dir string, limit int64) (*Cached, error) {
	config, err := ReadConfig(ConfigFile)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		config.CacheDir = dir
	}
	s, err := store.Existing(config.cacheDir(), config.cacheSize())
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	switch {
	case action == "clear":
		limit = -1
	case limit < 0:
		limit = s.Limit
	}
	done := &Cached{Dir: s.Dir}
	removes := action == "prune" || action == "clear"
	if removes {
		done.Entries, err = s.Prune(limit)
	} else {
		done.Entries, err = s.List()
	}
	if err != nil {
		return done, err
	}
	if done.Others, err = s.Others(); err != nil || !removes {
		return done, err
	}
	for _, l := range done.Others {
		if older := s.Older(l); older != nil {
			gone, err := older.Prune(limit)
			if done.Entries = append(done.Entries, gone...); err != nil {
				return done, err
			}
		}
	}
	done.Others, err = s.Others()
	return done, err
}
