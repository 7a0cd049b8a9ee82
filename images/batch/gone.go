// Results whose bases are gone: what may be removed where results are kept.

package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

// goneAtOnce is how many bases are looked up at once.
const goneAtOnce = 8

// Gone calls f for each result in a state file, or in those of a directory, whose base the registry
// no longer has: the DEST that it was written to. If several lines name one DEST, it is the result of the
// last of them, and counts as gone only if all their bases are gone. If a registry does not say, unknown is
// called with the base and the reason, and its result is not listed. Both are called by one goroutine at
// a time. The files are only read.
func Gone(parent context.Context, path string, o media.Options, f func(stored string) error, unknown func(source string, why error)) error {
	o = o.WithDefaults()
	s, err := readStates(path)
	if err != nil {
		return err
	}
	defer s.Close()
	shared, err := s.shared()
	if err != nil {
		return err
	}
	kept := map[string]bool{} // of the shared ones: whether there is a base
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(parent)
	g.SetLimit(goneAtOnce)
	for _, p := range inFileOrder(s.known) {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			line, err := s.line(p)
			stored, source := storedIn(line), gjson.GetBytes(line, "source").Str
			if err != nil || stored == "" {
				return err
			}
			gone, why := isGone(ctx, source, o)
			mu.Lock()
			defer mu.Unlock()
			if why != nil && ctx.Err() == nil {
				unknown(source, why)
			}
			switch {
			case shared[s.place(stored)]:
				kept[stored] = kept[stored] || !gone
			case gone:
				return f(stored)
			}
			return nil
		})
	}
	if err := cmp.Or(g.Wait(), context.Cause(parent)); err != nil {
		return err
	}
	for _, stored := range slices.Sorted(maps.Keys(kept)) {
		if kept[stored] {
			continue
		}
		if err := f(stored); err != nil {
			return err
		}
	}
	return nil
}

// shared are the hashes of the DESTs that several lines name.
func (s *state) shared() (map[uint64]bool, error) {
	var all []uint64
	for _, p := range s.known {
		line, err := s.line(p)
		if err != nil {
			return nil, err
		}
		if stored := storedIn(line); stored != "" {
			all = append(all, s.place(stored))
		}
	}
	return twice(all), nil
}

func (s *state) place(stored string) uint64 { return maphash.String(s.seed, stored) }

// storedIn is where the result of a line is, the same for all ways to write it.
func storedIn(line []byte) string {
	stored := gjson.GetBytes(line, "stored").Str
	if key, err := destKey(stored); err == nil {
		return key
	}
	return stored
}

// readStates reads a state file, or those of a directory.
func readStates(path string) (*state, error) {
	s := newState(path)
	files := []string{path}
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*"+stateEnding)); err != nil {
			return nil, err
		}
	}
	for _, name := range files {
		if err := s.read(name); err != nil {
			s.Close()
			return nil, fmt.Errorf("state file %s: %w", name, err)
		}
	}
	if err := s.settle(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// isGone reports whether a source is gone; an error if that is not known.
func isGone(ctx context.Context, source string, o media.Options) (bool, error) {
	ref, err := media.ParseRef(source)
	if err != nil || ref.Transport != media.Registry {
		return false, nil
	}
	_, err = media.RegistryDigest(ctx, ref, o)
	if errors.Is(err, hinterr.ErrNotFound) {
		return true, nil
	}
	return false, err
}
