// The cache of vfix-runtime, listed and pruned, and the data of 'vfix runtime status'.

package ociruntime

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/host/store"
)

// Cached has the entries that were listed in the cache, or removed from it.
type Cached struct {
	Dir     string
	Entries []store.Entry
	// Private is the bytes of the private copies of containers that are starting.
	Private int64
	// UsedBy maps the key of a copy to the images that got it, last start first; to a container's ID if the engine
	// does not name the image. It is derived from the recorded starts, and only for a list.
	UsedBy map[string][]string
	// Others has the remains of vfix versions whose cache has another layout.
	Others []store.Layout
}

// Bytes returns the size of the entries and the private copies together, in bytes.
func (c *Cached) Bytes() int64 {
	n := c.Private
	for _, e := range c.Entries {
		n += e.Size
	}
	return n
}

// usedBy finds copies in the recorded starts by their content; without a record the map is empty.
func usedBy(s *store.Store, entries []store.Entry, record string) map[string][]string {
	if !slices.ContainsFunc(entries, func(e store.Entry) bool { return !e.Index }) {
		return nil // the record may be long
	}
	const most = 10000 // starts
	log, err := starts.Read(record, most)
	if err != nil {
		return nil
	}
	byContent := map[string][]string{}
	for _, r := range slices.Backward(log.Last) {
		name := cmp.Or(r.Image, "container "+r.Container[:min(len(r.Container), 12)])
		for _, f := range r.Files {
			if !slices.Contains(byContent[f.After], name) {
				byContent[f.After] = append(byContent[f.After], name)
			}
		}
	}
	used := map[string][]string{}
	for _, e := range entries {
		if sum := s.SHA256(e.Key); !e.Index && sum != "" {
			used[e.Key] = byContent[sum]
		}
	}
	return used
}

// CacheActions are the actions of Cache.
var CacheActions = []string{"list", "size", "prune", "clear"}

// Cache lists the cache in a directory ("" for the configuration's), or removes entries. limit is the number of
// bytes that prune leaves; if it is negative, the limit of the cache.
func Cache(action, dir string, limit int64) (*Cached, error) {
	p := policy.Load("", false, "")
	if p.Err != nil {
		return nil, p.Err
	}
	config := p.Config
	if dir != "" {
		config.CacheDir = dir
	}
	s, err := store.Existing(config.Cache(), config.CacheBytes())
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
	if action == "prune" || action == "clear" {
		done.Entries, err = s.Prune(limit)
	} else if done.Entries, err = s.List(); err == nil {
		done.Private, err = s.PrivateBytes()
	}
	if err != nil {
		return done, err
	}
	if action == "list" {
		done.UsedBy = usedBy(s, done.Entries, config.RecordFile())
	}
	done.Others, err = s.Others()
	return done, err
}

// StatusOptions select what ReadStatus returns.
type StatusOptions struct {
	ConfigFile string
	Record     string // a file, or journald; "" for the configuration's
	Last       int    // number of starts
}

// Status has the recorded starts and the state of the cache.
type Status struct {
	*starts.Status
	Policy policy.InForce
	Cache  CacheState
}

// CacheState is the size and limit of the cache.
type CacheState struct {
	Dir     string `json:"dir"`
	Bytes   int64  `json:"bytes"`
	Entries int    `json:"entries"` // copies and indexes
	Limit   int64  `json:"limit"`   // bytes
}

// ReadStatus reads the status of this machine. It returns an error if the record cannot be read.
func ReadStatus(o StatusOptions) (*Status, error) {
	config := policy.Load(o.ConfigFile, false, "")
	var err error
	switch o.Record {
	case "":
		o.Record = config.RecordFile()
	case starts.Journal:
	default:
		if _, err := os.Stat(o.Record); err != nil {
			return nil, err
		}
	}
	s := &Status{Policy: config, Cache: CacheState{Dir: config.Cache(), Limit: config.CacheBytes()}}
	if s.Status, err = starts.Read(o.Record, o.Last); err != nil {
		return nil, err
	}
	cache, err := store.Existing(config.Cache(), config.CacheBytes())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := cache.List()
	for _, e := range all {
		s.Cache.Bytes += e.Size
	}
	s.Cache.Entries = len(all)
	return s, err
}
