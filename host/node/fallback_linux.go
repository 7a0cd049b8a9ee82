// Files of the fallback and of fixes in the root: what 'vfix rebuild' puts into images.

package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/addedfiles"
)

// maxAdded bounds a file of the root that has the name of one that is added, in bytes.
const maxAdded = 1 << 20

// read returns the content of a file of the root, nil without such a file.
func (r *root) read(name string) ([]byte, error) {
	if r.covered[name] {
		return nil, fmt.Errorf("/%s: a mount of the container is there", name)
	}
	f, st, err := r.openFile(name)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", name, err)
	}
	defer f.Close()
	if st.Size > maxAdded {
		return nil, fmt.Errorf("/%s: more than %d bytes", name, maxAdded)
	}
	return io.ReadAll(io.LimitReader(f, st.Size))
}

// put writes a file, if the root does not have it, and the directories that are missing. Their owner is that of the root
// directory.
func (r *root) put(name string, body []byte, mode fs.FileMode) error {
	old, err := r.read(name)
	if err != nil || old != nil && bytes.Equal(old, body) {
		return err
	}
	uid, gid := int(r.stat.Uid), int(r.stat.Gid)
	for i, c := range name {
		const readable = 0o755
		if dir := name[:i]; c == '/' && r.tree.Mkdir(dir, readable) == nil {
			err = errors.Join(err, r.tree.Lchown(dir, uid, gid), r.tree.Chmod(dir, readable))
		}
	}
	write := func(w *os.File) error {
		_, err := w.Write(body)
		return errors.Join(err, w.Chown(uid, gid), w.Chmod(mode))
	}
	return errors.Join(err, r.place([]addition{{names: []string{name}, write: write}})[0])
}

// putFallback adds the preload library and names it in ld.so.preload. Programs that load no library are not reached.
func (r *root) putFallback(o *Options) error {
	wide := slices.ContainsFunc(addedfiles.Loaders32, func(name string) bool {
		_, err := r.tree.Lstat(name)
		return !errors.Is(err, fs.ErrNotExist) // os.Root does not follow an absolute symlink
	})
	preload, err := r.read(addedfiles.Preload)
	if err != nil {
		return err
	}
	const readable, executable = 0o644, 0o755
	if err := r.put(path.Join(addedfiles.Dir, addedfiles.Library), o.Library(), executable); err != nil {
		return err
	}
	if wide {
		err = r.put(path.Join(addedfiles.Dir, addedfiles.Library32), o.Library32(), executable)
		for platform, to := range addedfiles.PlatformLinks { // other values of $PLATFORM
			if lerr := r.tree.Symlink(to, path.Join(addedfiles.Dir, platform)); !errors.Is(lerr, fs.ErrExist) {
				err = errors.Join(err, lerr)
			}
		}
		if err != nil {
			return err
		}
	}
	return r.put(addedfiles.Preload, addedfiles.WithPreloadLine(preload, wide), readable)
}

// putFixes adds the files that fixed programs read.
func (r *root) putFixes(targets []*target) error {
	for _, t := range targets {
		if t.Fix == "" {
			continue
		}
		file := addedfiles.FixOf(t.Fix).File
		if err := r.put(file.Name, file.Body, addedfiles.Mode); err != nil {
			return err
		}
	}
	return nil
}
