// What vfix cache prints.

package main

import (
	"fmt"
	"time"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/store"
)

// cached prints the entries that an action found or removed.
func (o *output) cached(action string, opts CacheOptions, done *ociruntime.Cached) error {
	if opts.json() {
		return o.json(cacheJSON(action, done))
	}
	for _, l := range done.Others {
		o.Note("%s in %s: the cache of another version of vfix (layout %s)", screen.Size(l.Bytes), l.Dir, l.Name)
	}
	switch action {
	case "list":
		t := &screen.Table{Head: []string{"SIZE", "LAST USED", "KIND", "NAME", "USED BY"}, Right: 0}
		for _, entry := range done.Entries {
			t.Add([]string{screen.Size(entry.Size), entry.Used.Format(time.DateTime), kindOf(entry), entry.Key, usersOf(done.UsedBy[entry.Key])})
		}
		t.Write(o.Stdout, o.Out)
	case "size":
		o.Result(fmt.Sprintf("%s, %s in %s", entries(done), screen.Size(done.Bytes()), done.Dir))
	default:
		o.Result(fmt.Sprintf("%s removed, %s", entries(done), screen.Size(done.Bytes())))
	}
	return nil
}

func entries(done *ociruntime.Cached) string {
	if len(done.Entries) == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", len(done.Entries))
}

// usersOf names the image that used a copy last, and how many others did.
func usersOf(images []string) string {
	switch len(images) {
	case 0:
		return "-"
	case 1:
		return images[0]
	}
	return fmt.Sprintf("%s and %s", images[0], screen.Count(len(images)-1, "other"))
}

func kindOf(e store.Entry) string {
	if e.Index {
		return "index"
	}
	return "copy"
}

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
	doc := jsonCache{jsonDocument: document("cache"), Action: action, Dir: c.Dir, Bytes: c.Bytes()}
	for _, e := range c.Entries {
		doc.Entries = append(doc.Entries, jsonCacheEntry{e.Key, kindOf(e), e.Size, e.Used.UTC().Format(time.RFC3339), c.UsedBy[e.Key]})
	}
	for _, l := range c.Others {
		doc.Others = append(doc.Others, jsonLayout{l.Name, l.Dir, l.Bytes})
	}
	return doc
}
