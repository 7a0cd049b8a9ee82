// Results whose bases are gone: what may be removed where results are kept.

package batch

import (
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

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

// goneAtOnce is how many bases are asked for at once.
const goneAtOnce = 8

// Gone calls f for each result in a state file, or in those of a directory, whose base the registry
// no longer has: the DEST that it was written to. One that several lines name is the result of the
// last of them, and gone only if all of their bases are. If a registry does not say, unknown is
// called with the base and the reason, and its result is not listed. Both are called by one goroutine at
// a time. The files are only read.
func Gone(ctx context.Context, path string, o media.Options, f func(stored string) error, unknown func(source string, why error)) error {
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan place)
	var telling sync.Mutex
	var wg sync.WaitGroup
	for range goneAtOnce {
		wg.Go(func() {
			for p := range next {
				r, err := s.result(p)
				gone := false
				var why error
				if err == nil && r.stored != "" {
					gone, why = r.gone(ctx, o)
				}
				stored := r.stored
				telling.Lock()
				if why != nil && ctx.Err() == nil {
					unknown(r.source, why)
				}
				switch {
				case err != nil || stored == "":
				case shared[s.place(stored)]:
					kept[stored] = kept[stored] || !gone
				case gone:
					err = f(stored)
				}
				telling.Unlock()
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, p := range inFileOrder(s.known) {
		if ctx.Err() != nil {
			break
		}
		next <- p
	}
	close(next)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
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

// result is what a line of a state file says: where an image went, "" for nowhere, and its source.
type result struct{ stored, source string }

func (s *state) result(p place) (result, error) {
	line, err := s.line(p)
	if err != nil {
		return result{}, err
	}
	return result{storedIn(line), gjson.GetBytes(line, "source").Str}, nil
}

// gone reports whether the base of a result is gone; an error if that is not known.
func (r result) gone(ctx context.Context, o media.Options) (bool, error) {
	ref, err := media.ParseRef(r.source)
	if err != nil || ref.Transport != media.Registry {
		return false, nil
	}
	_, err = media.RegistryDigest(ctx, ref, o)
	if errors.Is(err, hinterr.ErrNotFound) {
		return true, nil
	}
	return false, err
}
