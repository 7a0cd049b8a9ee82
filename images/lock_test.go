package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// One at a time, for many who come and go at once, and no file is left.
func TestLockOutput(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	var inside, most, turns atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				unlock, err := lockOutput(context.Background(), path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				turns.Add(1)
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				unlock()
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 || turns.Load() != 40 {
		t.Errorf("%d at once, %d turns", most.Load(), turns.Load())
	}
	wantEmpty(t, dir)
}

// ender ends the command a while after it is told that one waits.
type ender struct {
	notes
	cancel func()
}

func (e *ender) Note(format string, args ...any) {
	e.notes.Note(format, args...)
	time.AfterFunc(2*lockPoll, e.cancel)
}

// Who waits says so, and stops waiting when the command is ended.
func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	unlock := must[func()](t)(lockOutput(context.Background(), path, nil))
	why := errors.New("stopped by hand")
	ctx, cancel := context.WithCancelCause(context.Background())
	n := &ender{cancel: func() { cancel(why) }}
	if _, err := lockOutput(ctx, path, n); !errors.Is(err, why) || len(n.text) != 1 {
		t.Errorf("%v, notes %q", err, n.text)
	}
	unlock()
	// A file that somebody who was killed left behind is in nobody's way.
	write(t, filepath.Join(filepath.Dir(path), ".out"+lockSuffix), nil)
	must[func()](t)(lockOutput(context.Background(), path, nil))()
	wantEmpty(t, filepath.Dir(path))
}

// Results that come to one layout at once are all in it.
func TestLayoutAtOnce(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for n := range 8 {
		img := platformImage(t, "amd64", fmt.Sprint(n/2)) // two of each, which share their blobs
		wg.Go(func() {
			_, err := Put(context.Background(), Ref{Transport: OCILayout, Name: filepath.Join(dir, "l"), Tag: fmt.Sprint(n)}, Result{Image: img}, MediaOptions{})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for n := range 8 {
		src := open(t, fmt.Sprintf("oci:%s/l:%d", dir, n))
		want := platformImage(t, "amd64", fmt.Sprint(n/2))
		if must[v1.Hash](t)(src.Image.ConfigName()) != must[v1.Hash](t)(want.ConfigName()) {
			t.Errorf("tag %d names another image", n)
		}
	}
	wantEmpty(t, dir, "l")
	if entries := must[[]os.DirEntry](t)(os.ReadDir(dir)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
