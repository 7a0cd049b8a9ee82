// A root filesystem that is looked at, and nothing else: no cache, no copies.

package ociruntime

import (
	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/rootfs"
)

// Inspected is what a start would find in a root filesystem.
type Inspected struct {
	Files  []string // that call the vsyscall page, by their first names
	Sites  int      // call sites that a start would patch
	Left   int      // live and unknown ones that would stay
	Unread []string // files that could not be examined
}

// Inspect looks at the root filesystem that is open at a descriptor, which it closes, as a start does and within
// limits.
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
		found.Unread = append(found.Unread, "/"+string(u.Name))
	}
	return found, nil
}
