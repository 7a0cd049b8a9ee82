// What vfix cache prints.

package main

import (
	"fmt"
	"time"

	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/store"
)

// cached prints the entries that an action found or removed.
func (o *output) cached(action string, opts CacheOptions, done *ociruntime.Cached) error {
	if opts.json() {
		return o.json(cacheJSON(action, done))
	}
	switch action {
	case "list":
		for _, entry := range done.Entries {
			o.result(fmt.Sprintf("%12d  %s  %-5s  %s", entry.Size, entry.Used.Format(time.DateTime), kindOf(entry), entry.Key))
		}
	case "size":
		o.result(fmt.Sprintf("%d entries, %d bytes in %s", len(done.Entries), done.Bytes(), done.Dir))
	default:
		o.result(fmt.Sprintf("%d entries removed, %d bytes", len(done.Entries), done.Bytes()))
	}
	return nil
}

func kindOf(e store.Entry) string {
	if e.Index {
		return "index"
	}
	return "copy"
}
