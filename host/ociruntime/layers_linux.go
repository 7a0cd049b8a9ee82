// Layers that are examined before a container starts from them, and root filesystems that are only examined.

package ociruntime

import (
	"errors"
	"fmt"
	"os"

	examiner "vfix.dev/vfix/host/oldexaminer"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/store"
)

// earlySeconds is the time limit for the layers of one image: no start waits for them.
const earlySeconds = 900

// Index examines the layers of an image as a container's start does, and keeps the results in the cache in a
// directory, "" for the configuration's. It does not examine known files again.
func Index(layers []string, dir string, o Options) (*Indexed, error) {
	p := policy.Load("", false, dir)
	if p.Err != nil {
		return nil, p.Err
	}
	decided, err := p.Decide(nil)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		p.CacheDir = dir
	}
	s, err := store.Open(p.Cache(), p.CacheBytes())
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	p.Limits.Seconds = earlySeconds
	b := newBudget(p.Limits)
	pool := &examiner.Pool{Memory: b.MemoryBytes, Until: b.until(), Fixes: decided.Fix}
	defer pool.Close()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	keep := indexes{s, o.maker(pool.Fixes), b, pool, parseMounts(text)}
	done := &Indexed{Layers: len(layers)}
	for _, layer := range layers {
		examined := pool.Examined.Load()
		x, err := keep.lower(layer, immutable(layer))
		if err != nil {
			return done, fmt.Errorf("%s: %w", layer, err)
		}
		if pool.Examined.Load() > examined {
			done.New++
		}
		done.Files += len(x.Legacy)
		done.Unread += len(x.Unread)
	}
	done.Seconds = b.since()
	return done, s.Trim()
}

// Layers returns the layers of the mount at a path, uppermost first.
func Layers(mountinfo []byte, path string) ([]string, error) {
	root, err := rootfs.Open(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	m, mounted := (&container{root: root, mounts: parseMounts(mountinfo)}).rootMount()
	if !mounted || !m.wholeOverlay() {
		return nil, errors.New("not an overlay mount")
	}
	o, err := layersOf(m)
	return o.lower, err
}

// Inspected is the result that a start would have for a root filesystem.
type Inspected struct {
	Files  []string // that call the vsyscall page, by their first names
	Sites  int      // call sites that a start would patch
	Left   int      // live and unknown ones that a start would not patch
	Unread []string // files that could not be examined
}

// Inspect examines the root filesystem at the descriptor fd, which it closes, as a start does and within limits.
func Inspect(fd int, limits policy.Limits) (*Inspected, error) {
	root, err := rootfs.Of(fd, "root")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	b := newBudget(limits)
	pool := &examiner.Pool{Memory: b.MemoryBytes, Until: b.until()}
	defer pool.Close()
	x, _, err := scanTree(root, nil, false, b, pool)
	if err != nil {
		return nil, err
	}
	found := &Inspected{}
	for _, h := range x.Legacy {
		found.Files = append(found.Files, "/"+string(h.Names[0]))
		found.Sites += h.Sites
		found.Left += h.Stay
	}
	for _, u := range x.Unread {
		if !u.crosses { // volumes are not the image's
			found.Unread = append(found.Unread, "/"+string(u.Name))
		}
	}
	return found, nil
}
