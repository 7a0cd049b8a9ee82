// The verb cache: its options and actions.

package main

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/store"
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
		Long: `vfix-runtime keeps patched copies of files, and what it found in each layer, in
a cache. They are made again when needed: removing them costs time only.

  list    each entry, what was used last first: its bytes on the disk, when a
          container used it, whether it is a copy or an index, its name
  size    how many entries, and their bytes together
  prune   remove what was used longest ago, down to --size, and what was left
          half-written
  clear   remove all

An entry that was used within the last minute stays: a container may be about to
mount it. Containers that run keep what they have mounted, whatever is removed.`,
		Example: `  vfix cache list
  vfix cache prune --size 500M
  vfix cache clear`,
		Annotations: exits("  0  done   1  an error   2  usage"),
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
	f.StringVar(&opts.dir, "cache-dir", "", "the `DIR` of the cache (default: that of "+ociruntime.ConfigFile+", else "+ociruntime.DefaultCacheDir+")")
	f.StringVar(&opts.size, "size", "", "prune: leave so many `BYTES`, with K, M or G for more (default: the cache's own bound)")
	opts.addFormat(cmd)
	return cmd
}

func runCache(action string, opts CacheOptions, out *output, e engine) error {
	if err := opts.check("cache"); err != nil {
		return err
	}
	limit := int64(-1)
	if opts.size != "" {
		if action != "prune" {
			return usagef("cache", "--size goes with prune, not with %s", action)
		}
		var err error
		if limit, err = bytesOf(opts.size); err != nil {
			return err
		}
	}
	done, err := e.cache(action, opts.dir, limit)
	if err != nil {
		return &cacheError{err}
	}
	return out.cached(action, opts, done)
}

// bytesOf reads a number of bytes with a unit.
func bytesOf(text string) (int64, error) {
	shift := map[string]int{"K": 10, "M": 20, "G": 30}
	number, unit := text, ""
	if n := len(text) - 1; n > 0 && shift[strings.ToUpper(text[n:])] > 0 {
		number, unit = text[:n], strings.ToUpper(text[n:])
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<63-1)>>shift[unit] {
		return 0, usagef("cache", "--size %s: want a number of bytes, with K, M or G behind it for 1024 times as much each", text)
	}
	return n << shift[unit], nil
}

// cacheError is why the cache cannot be looked at.
type cacheError struct{ error }

func (e *cacheError) Unwrap() error { return e.error }

func (e *cacheError) Hint() string {
	switch {
	case errors.Is(e.error, fs.ErrNotExist):
		return "vfix-runtime makes it when it first starts a container; name another with --cache-dir"
	case errors.Is(e.error, store.ErrUnsound):
		return "run vfix as its owner, or name another folder with --cache-dir"
	case errors.Is(e.error, fs.ErrPermission):
		return "the cache is root's: run vfix as root"
	}
	return "remove the folder when no container starts: it is made again"
}
