// The directories of a root: what is to patch in each, from the cache after the first start with it, or by a look at it.

package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// key is the name of a directory in the cache, by device, inode and birth time, and by the change time of a layer: that
// of a container's own directory changes. Its path is no key: engines use names again.
func (d directory) key(maker string) (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, d.path, 0, statxMask, &st); err != nil {
		return "", fmt.Errorf("%s: %w", d.path, err)
	}
	text := fmt.Sprintf("%s\n%d:%d %d %d.%d", maker, st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec)
	if !d.own {
		text += fmt.Sprintf(" %d.%d", st.Ctime.Sec, st.Ctime.Nsec)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]), nil
}

// find returns the files to patch in all directories of the root, or that something stays in.
func (l *looker) find() (*findings, error) {
	all := &findings{}
	for _, d := range l.dirs {
		found, err := l.directory(d)
		if err != nil {
			return nil, err
		}
		all.Targets = append(all.Targets, found.Targets...)
		all.Left = append(all.Left, found.Left...)
	}
	return all, nil
}

// few is how many entries a layer has at most that is not stored if it has nothing to patch: a look takes less time.
// Engines make such a layer for each container.
const few = 100

// directory returns the files to patch in one directory, and what the root shows of them.
func (l *looker) directory(d directory) (*findings, error) {
	dir, err := os.Open(d.path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	key, err := d.key(l.maker)
	if err != nil {
		return nil, err
	}
	found := l.cache.get(key)
	if found == nil && !d.own && !l.cut {
		// Others that need the same wait, within their own bound. A file system without locks has none.
		for unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK {
			if time.Now().After(l.Until) {
				return nil, fmt.Errorf("%w: another start examines the same image", errBound)
			}
			const interval = 5 * time.Millisecond
			time.Sleep(interval)
		}
		found = l.cache.get(key)
	}
	switch {
	case found != nil:
	case l.cut:
		return &findings{}, nil
	default:
		before := l.entries
		if found, err = l.look(int(dir.Fd())); err != nil {
			return nil, err
		}
		if l.cut || !d.own && (before-l.entries > few || len(found.Targets)+len(found.Left) > 0) {
			if l.use == "hit" && !d.own {
				l.use = "miss"
			}
			if err := l.cache.put(key, found); err != nil {
				found.Left = append(found.Left, leftover{Reason: "cache: " + err.Error()})
			}
		}
	}
	same, err := l.compare(d, found.Targets)
	if err == nil && !same {
		_ = os.Remove(l.cache.path(key))
		found.Left = append(found.Left, leftover{Reason: "the layers are not those that were examined: the next start looks again"})
	}
	return found, err
}

// compare finds out which files of the root are the targets of a directory. It returns false if the directory has other
// files than the cache says: not if the container has replaced or removed them.
func (l *looker) compare(d directory, targets []*target) (same bool, err error) {
	same = true
	for _, t := range targets {
		var patchedNames []string
		for _, name := range t.Names {
			original, patched, err := l.shows(t, name)
			var st unix.Stat_t
			switch {
			case err != nil:
				return false, err
			case original:
				t.todo = append(t.todo, name)
			case patched:
				patchedNames = append(patchedNames, name)
				l.done[name] = true
			case unix.Lstat(filepath.Join(d.path, name), &st) != nil || !t.matches(&st):
				same = false
			}
		}
		t.gone = len(t.todo)+len(patchedNames) == 0
		if len(t.todo) > 0 {
			t.todo = append(t.todo, patchedNames...)
		}
	}
	return same, nil
}

// shows reports whether the root has a target's original under a name, or its patched file.
func (l *looker) shows(t *target, name string) (original, patched bool, err error) {
	if l.covered[name] {
		return false, false, nil
	}
	f, st, err := l.openFile(name)
	if err != nil {
		return false, false, unread(name, err)
	}
	defer f.Close()
	original = t.matches(&st)
	return original, !original && t.isResult(f, st.Size), nil
}
