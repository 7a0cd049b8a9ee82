// Fixes beyond calls of the page: which ones a container gets, and read-only mounts of the files that fixed
// programs read.

package ociruntime

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/rewriter/find"
)

// possible returns the fixes whose files this container can have.
func (k *container) possible(all []find.Fix) (some []find.Fix) {
	for _, r := range all {
		if err := k.roomFor(fixes.Of(r).File); err != nil {
			k.rec.Add("", fmt.Sprintf("%s: %v", r, err))
			continue
		}
		some = append(some, r)
	}
	return some
}

// roomFor returns nil if a file can be mounted: its path does not exist, or has the file itself or an empty one,
// which an earlier mount needed.
func (k *container) roomFor(f fixes.File) error {
	if k.has(f.Name, f.Body) {
		return nil
	}
	if k.isHidden(f.Name) {
		return fmt.Errorf("the engine mounts something at /%s", f.Name)
	}
	if err := k.itself(f.Name); err != nil {
		return err
	}
	if st, err := k.root.Lstat(f.Name); err == nil && st.Size > 0 {
		return fmt.Errorf("/%s: the image has such a file, and it is not vfix's", f.Name)
	}
	return k.mountable(f.Name)
}

// addFixes mounts the files that the container's fixed programs read.
func (k *container) addFixes() error {
	for _, r := range k.fixed {
		f := fixes.Of(r).File
		if k.has(f.Name, f.Body) {
			continue
		}
		meta := store.Meta{Mode: fixes.Mode}
		meta.UID, meta.GID = k.spec.containerRoot()
		key, err := k.storedFile(path.Base(f.Name), f.Body, meta)
		if err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		k.add = append(k.add, bound("/"+f.Name, key))
	}
	return nil
}

// needs adds a fix of a program that the container sees.
func (k *container) needs(r find.Fix) {
	if r != "" && !slices.Contains(k.fixed, r) {
		k.fixed = append(k.fixed, r)
	}
}

// maker returns Options.maker for this container.
func (k *container) maker() string { return k.own.maker(k.pool.Fixes) }

// words returns the names of fixes as in the record.
func words(all []find.Fix) string {
	var names []string
	for _, r := range all {
		names = append(names, string(r))
	}
	return strings.Join(names, ",")
}
