// Two runs of vfix that write the same layout or archive at once take turns: the second sees the result of the
// first, and adds its own to a layout.

package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/rootpath"
)

// lockSuffix ends the name of the empty file that shows that somebody writes PATH: .NAME and
// this, beside PATH. The writer removes it; if vfix was killed it stays and does
// no harm, as the kernel's lock on it counts and not its existence.
const lockSuffix = ".vfix-lock"

// errTaken: somebody else has the lock.
var errTaken = errors.New("locked")

// lockPoll is the interval between attempts to get a taken lock: waiting in the kernel could not
// be interrupted.
const lockPoll = 100 * time.Millisecond

// CreateLocked is Create under path's lock: if this run is killed, the next one that gets the lock
// removes what is left of the file. Release discards what was not committed.
func CreateLocked(ctx context.Context, path string, p progress.Reporter) (f *File, release func(), err error) {
	unlock, err := Lock(ctx, path, p)
	if err != nil {
		return nil, nil, err
	}
	if f, err = CreateNamed(path, HeldName); err != nil {
		unlock()
		return nil, nil, err
	}
	return f, func() { f.Discard(); unlock() }, nil
}

// Lock waits until nobody else writes path, and keeps others out until unlock. The
// remains of path by runs that were killed are removed. On a file system without locks it only
// reports that.
func Lock(ctx context.Context, path string, p progress.Reporter) (unlock func(), err error) {
	if real, _, err := rootpath.Real(path); err == nil {
		path = real
	}
	path = filepath.Clean(path)
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() && !fi.IsDir() {
		return nil, notRegular(path) // before a lock is tried beside a device
	}
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+lockSuffix)
	reported := false
	for {
		unlock, err := tryLock(name, path)
		switch {
		case err == nil:
			removeStale(path)
			return unlock, nil
		case errors.Is(err, errors.ErrUnsupported):
			progress.Note(p, "%s: the file system has no locks: nobody else may write it meanwhile", path)
			return func() {}, nil
		case !errors.Is(err, errTaken):
			return nil, err
		}
		if !reported {
			progress.Note(p, "%s: waiting for another vfix that writes it", path)
			reported = true
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// tryLock makes the file, locks it, and makes sure that it is still the one that others
// see: unlocking removes the file.
func tryLock(name, path string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, os.ErrPermission) {
		if _, serr := os.Stat(name); serr == nil {
			// Another user's: this process can wait for it but not take it.
			return nil, hinterr.With(fmt.Errorf("%w; another user's vfix writes there, or was killed", err), "remove %s if nobody does", name)
		}
	}
	if err != nil {
		return nil, besides(err, path)
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	mine, err := f.Stat()
	if err == nil {
		var seen os.FileInfo
		if seen, err = os.Stat(name); err == nil && !os.SameFile(mine, seen) || errors.Is(err, os.ErrNotExist) {
			err = errTaken
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() {
		os.Remove(name) // while it is locked: waiting processes look again
		f.Close()
	}, nil
}
