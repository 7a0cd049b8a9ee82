// Repairs beyond calls of the page: which ones a container gets, and the files that repaired programs
// read, as read-only mounts.

package ociruntime

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/internal/repairs"
	"vfix.dev/vfix/rewriter"
)

// possible are the repairs whose files this container can have.
func (k *container) possible(all []rewriter.Repair) (some []rewriter.Repair) {
	for _, r := range all {
		if err := k.roomFor(repairs.FileOf(r)); err != nil {
			k.rec.Add("", fmt.Sprintf("%s: %v", r, err))
			continue
		}
		some = append(some, r)
	}
	return some
}

// roomFor is nil where a file can be mounted: nothing is there but the file itself, or an empty one
// that an earlier mount needed.
func (k *container) roomFor(f repairs.File) error {
	name, err := k.root.Resolve(f.Name)
	if err != nil {
		return fmt.Errorf("/%s: %w", f.Name, err)
	}
	if k.isHidden(name) {
		return fmt.Errorf("the engine mounts something at /%s", name)
	}
	is, err := k.root.OpenFile(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		if err = k.mountable(name); err == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("/%s: %w", name, err)
	}
	defer is.Close()
	got := make([]byte, len(f.Body)+1)
	n, err := is.ReadAt(got, 0)
	if err != nil && err != io.EOF {
		return fmt.Errorf("/%s: %w", name, err)
	}
	if n > 0 && !bytes.Equal(got[:n], f.Body) {
		return fmt.Errorf("/%s: the image has such a file, and it is not vfix's", name)
	}
	return nil
}

// addRepairs mounts the files that the container's repaired programs read.
func (k *container) addRepairs() error {
	for _, r := range k.repaired {
		f := repairs.FileOf(r)
		meta := store.Meta{Mode: repairs.Mode}
		meta.UID, meta.GID = k.spec.containerRoot()
		source, err := k.privateFile(path.Base(f.Name), f.Body, meta)
		if err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		k.add = append(k.add, bound("/"+f.Name, source))
	}
	return nil
}

// needs notes that a program which the container sees has a repair.
func (k *container) needs(r rewriter.Repair) {
	if r != "" && !slices.Contains(k.repaired, r) {
		k.repaired = append(k.repaired, r)
	}
}

// maker names what makes copies of files, and what is looked for in them.
func (k *container) maker() string {
	maker := k.own.maker()
	for _, r := range k.pool.Repairs {
		maker += " " + string(r)
	}
	return maker
}

// words are repairs as the record has them.
func words(all []rewriter.Repair) string {
	var names []string
	for _, r := range all {
		names = append(names, string(r))
	}
	return strings.Join(names, ",")
}
