// The verb cache: its options and actions.

package main

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/internal/hinterr"
)

// CacheOptions are the choices of vfix cache.
type CacheOptions struct {
	printOptions
	dir  string
	size string
}

func newCacheCommand(out *output, e engine) *cobra.Command {
	var opts CacheOptions
	cmd := &cobra.Command{
		Use:   "cache list|size|prune|clear [options]",
		Short: "List or remove the patched copies that vfix-runtime keeps",
		Long: `vfix-runtime caches patched copies of files and the results for each layer. They
are recreated when needed: removing them only costs time.

  list    show each entry, most recently used first: its size on disk, when a
          container last used it, whether it is a copy or an index, its name,
          and the images that used it
  size    show the number of entries and their total size
  prune   remove the least recently used entries until the cache fits --size,
          and incomplete ones
  clear   remove all entries

An entry that was used within the last minute is kept, because a container may
be about to mount it. Running containers keep the files they have mounted.

Versions of vfix whose caches differ in layout have separate subdirectories:
prune and clear include the layouts that this version knows and name the others.`,
		Example: `  vfix cache list
  vfix cache prune --size 500M
  vfix cache clear`,
		Annotations: exits(`  0  success   1  error   2  usage error`),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("cache", "want one of %s", strings.Join(ociruntime.CacheActions, ", "))
			}
			return oneOf("cache", "action", args[0], ociruntime.CacheActions)
		},
		ValidArgs: ociruntime.CacheActions,
		RunE:      func(_ *cobra.Command, args []string) error { return runCache(args[0], opts, out, e) },
	}
	f := cmd.Flags()
	f.StringVar(&opts.dir, "cache-dir", "", "the `DIR` of the cache (default: as in "+policy.ConfigFile+", or "+policy.DefaultCacheDir+")")
	f.StringVar(&opts.size, "size", "", "prune: keep at most this many `BYTES`; K, M and G are accepted (default: the limit of the cache)")
	opts.addFormat(cmd)
	return cmd
}

func runCache(action string, opts CacheOptions, out *output, e engine) error {
	limit := int64(-1)
	if opts.size != "" {
		if action != "prune" {
			return usagef("cache", "--size works only with prune, not with %s", action)
		}
		var err error
		if limit, err = bytesOf("cache", "--size", opts.size); err != nil {
			return err
		}
	}
	done, err := e.cache(action, opts.dir, limit)
	if err != nil {
		return hinterr.Among(err, cacheHints, "remove the directory while no container is being started: it is created again")
	}
	return out.cached(action, opts, done)
}

// bytesOf reads a number of bytes with a unit.
func bytesOf(verb, flag, text string) (int64, error) {
	n, err := units.RAMInBytes(text)
	if err != nil || n < 0 { // too large
		return 0, usagef(verb, "%s %s: want a number of bytes, such as 500M; K, M and G are powers of 1024", flag, text)
	}
	return n, nil
}

// cacheHints are the hints if the cache cannot be read.
var cacheHints = []hinterr.For{
	{Err: fs.ErrNotExist, Hint: "vfix-runtime creates it when it first starts a container; name another one with --cache-dir"},
	{Err: store.ErrUnsound, Hint: "run vfix as its owner, or name another directory with --cache-dir"},
	{Err: fs.ErrPermission, Hint: "the cache belongs to root: run vfix as root"},
}

// cached prints the entries that an action found or removed.
func (o *output) cached(action string, opts CacheOptions, done *ociruntime.Cached) error {
	if opts.json() {
		return o.document("cache", false, cacheJSON(action, done))
	}
	for _, l := range done.Others {
		o.Note("%s in %s: the cache of another version of vfix (layout %s)", screen.Size(l.Bytes), l.Dir, l.Name)
	}
	switch action {
	case "list":
		t := &screen.Table{Head: []string{"SIZE", "LAST USED", "KIND", "NAME", "USED BY"}}
		for _, entry := range done.Entries {
			t.Add([]string{screen.Size(entry.Size), entry.Used.Format(time.DateTime), kindOf(entry), entry.Key, usersOf(done.UsedBy[entry.Key])})
		}
		t.Write(o.Stdout, o.Out)
	case "size":
		o.Result(fmt.Sprintf("%s, %s in %s", screen.Count(len(done.Entries), "entry"), screen.Size(done.Bytes()), done.Dir))
	default:
		o.Result(fmt.Sprintf("%s removed, %s", screen.Count(len(done.Entries), "entry"), screen.Size(done.Bytes())))
	}
	return nil
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
	Action  string           `json:"action"`
	Dir     string           `json:"dir"`
	Bytes   int64            `json:"bytes"`
	Entries []jsonCacheEntry `json:"entries"`
	Others  []store.Layout   `json:"other_layouts"`
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
	doc := jsonCache{Action: action, Dir: c.Dir, Bytes: c.Bytes(), Others: c.Others}
	for _, e := range c.Entries {
		doc.Entries = append(doc.Entries, jsonCacheEntry{e.Key, kindOf(e), e.Size, e.Used.UTC().Format(time.RFC3339), c.UsedBy[e.Key]})
	}
	return doc
}
