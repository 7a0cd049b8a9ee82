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
	done := &Cached{Dir: s.Dir}
	switch action {
	case "prune":
		if limit < 0 {
			limit = s.Limit
		}
		done.Entries, err = s.Prune(limit)
	case "clear":
		done.Entries, err = s.Prune(-1)
	default:
		done.Entries, err = s.List()
	}
	return done, err
}
