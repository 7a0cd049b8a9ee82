// The JSON of vfix cache.

package main

import (
	"time"

	"vfix.dev/vfix/host/ociruntime"
)

type jsonCache struct {
	jsonDocument
	Action  string           `json:"action"`
	Dir     string           `json:"dir"`
	Bytes   int64            `json:"bytes"`
	Entries []jsonCacheEntry `json:"entries"`
	Others  []jsonLayout     `json:"other_layouts"`
}

type jsonLayout struct {
	Name  string `json:"name"`
	Dir   string `json:"dir"`
	Bytes int64  `json:"bytes"`
}

type jsonCacheEntry struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Size int64  `json:"size"`
	Used string `json:"used"`
	// UsedBy are images, or containers whose image the engine did not name.
	UsedBy []string `json:"used_by"`
}

func cacheJSON(action string, c *ociruntime.Cached) jsonCache {
	doc := jsonCache{jsonDocument: document("cache"), Action: action, Dir: c.Dir, Bytes: c.Bytes(), Entries: []jsonCacheEntry{}, Others: []jsonLayout{}}
	for _, e := range c.Entries {
		doc.Entries = append(doc.Entries, jsonCacheEntry{e.Key, kindOf(e), e.Size, e.Used.UTC().Format(time.RFC3339), list(c.UsedBy[e.Key])})
	}
	for _, l := range c.Others {
		doc.Others = append(doc.Others, jsonLayout{l.Name, l.Dir, l.Bytes})
	}
	return doc
}
