package atomicfile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
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
				unlock, err := atomicfile.Lock(context.Background(), path, nil)
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
	imagetest.WantEmpty(t, dir)
}

// ender ends the command a while after it hears that one waits.
type ender struct {
	imagetest.Notes
	cancel func()
}

func (e *ender) Note(format string, args ...any) {
	e.Notes.Note(format, args...)
	time.AfterFunc(2*atomicfile.LockPoll, e.cancel)
}

// Who waits says so, and stops waiting when the command is ended.
func TestLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	unlock := imagetest.Must[func()](t)(atomicfile.Lock(context.Background(), path, nil))
	why := errors.New("stopped by hand")
	ctx, cancel := context.WithCancelCause(context.Background())
	n := &ender{cancel: func() { cancel(why) }}
	if _, err := atomicfile.Lock(ctx, path+"/", n); !errors.Is(err, why) || len(n.Text) != 1 {
		t.Errorf("%v, notes %q", err, n.Text)
	}
	unlock()
	// A file that somebody who was killed left behind is in nobody's way.
	imagetest.Write(t, filepath.Join(filepath.Dir(path), ".out"+atomicfile.LockSuffix), nil)
	imagetest.Must[func()](t)(atomicfile.Lock(context.Background(), path, nil))()
	imagetest.WantEmpty(t, filepath.Dir(path))
}

// Results that come to one layout at once are all in it.
func TestLayoutAtOnce(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for n := range 8 {
		img := imagetest.PlatformImage(t, "amd64", fmt.Sprint(n/2)) // two of each, which share their blobs
		wg.Go(func() {
			_, err := sources.Put(context.Background(), media.Ref{Transport: media.OCILayout, Name: filepath.Join(dir, "l"), Tag: fmt.Sprint(n)}, media.Result{Image: img}, media.Options{})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for n := range 8 {
		src := imagetest.Open(t, fmt.Sprintf("oci:%s/l:%d", dir, n))
		want := imagetest.PlatformImage(t, "amd64", fmt.Sprint(n/2))
		if imagetest.Must[v1.Hash](t)(src.Image.ConfigName()) != imagetest.Must[v1.Hash](t)(want.ConfigName()) {
			t.Errorf("tag %d names another image", n)
		}
	}
	imagetest.WantEmpty(t, dir, "l")
	if entries := imagetest.Must[[]os.DirEntry](t)(os.ReadDir(dir)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// An error names what the user named, not the file that vfix writes first.
func TestErrorNamesTheFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	path := filepath.Join(dir, "out")
	_, create := atomicfile.Create(path)
	_, lock := atomicfile.Lock(t.Context(), path, nil)
	for what, err := range map[string]error{"create": create, "lock": lock} {
		imagetest.WantErr(t, err, fs.ErrNotExist, "no directory "+dir)
		if hint := hinterr.HintOf(err); !strings.Contains(hint, "mkdir -p "+dir) {
			t.Errorf("%s: got the hint %q", what, hint)
		}
	}
	file := imagetest.Write(t, filepath.Join(t.TempDir(), "file"), nil)
	_, create = atomicfile.Create(file + "/out")
	_, lock = atomicfile.Lock(t.Context(), file+"/out", nil)
	for what, err := range map[string]error{"create": create, "lock": lock} {
		if err == nil || !strings.Contains(err.Error(), file+"/out") || strings.Contains(err.Error(), ".vfix-") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
