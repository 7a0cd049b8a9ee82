// Results whose bases are gone: what may be removed where results are kept.

package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

// goneAtOnce is how many bases are asked for at once.
const goneAtOnce = 8

// Gone calls f for each result in a state file, or in those of a directory, whose base the registry
// no longer has: the DEST that it was written to. f is called by one goroutine at a time. The files are
// only read.
func Gone(ctx context.Context, path string, o media.Options, f func(stored string) error) error {
	o = o.WithDefaults()
	s, err := readStates(path)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan place)
	var telling sync.Mutex
	var wg sync.WaitGroup
	for range goneAtOnce {
		wg.Go(func() {
			for p := range next {
				stored, err := s.gone(ctx, p, o)
				if err == nil && stored != "" {
					telling.Lock()
					err = f(stored)
					telling.Unlock()
				}
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
	return context.Cause(ctx)
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

// gone gives the result of a line whose base is gone, else "".
func (s *state) gone(ctx context.Context, p place, o media.Options) (string, error) {
	line, err := s.line(p)
	if err != nil {
		return "", err
	}
	var l stateLine
	if err := json.Unmarshal(line, &l); err != nil {
		return "", err
	}
	ref, err := media.ParseRef(l.Source)
	if err != nil || ref.Transport != media.Registry || l.Stored == "" {
		return "", nil
	}
	if _, err = media.RegistryDigest(ctx, ref, o); errors.Is(err, hinterr.ErrNotFound) {
		return l.Stored, nil
	}
	return "", err
}
