// The output of vfix runtime status.

package ociruntime

import (
	"errors"
	"io/fs"
	"os"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/host/store"
)

// StatusOptions say what is shown.
type StatusOptions struct {
	ConfigFile string
	Record     string // a file, or journald; "" for the configuration's
	Last       int    // starts
}

// Status is what is remembered of starts, and the state of the cache.
type Status struct {
	*starts.Status
	Policy policy.InForce
	Cache  CacheState
}

// CacheState is how full the cache is.
type CacheState struct {
	Dir     string `json:"dir"`
	Bytes   int64  `json:"bytes"`
	Entries int    `json:"entries"` // copies and indexes
	Limit   int64  `json:"limit"`   // bytes
}

// ReadStatus reads it.
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
