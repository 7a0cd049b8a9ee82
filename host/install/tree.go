// Reading and writing files in the root folder that an installation is made in.

package install

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/rootpath"
)

// tempPrefix begins the names of files that are not finished. One that a killed run left is
// overwritten by the next, which gives it the same name.
const tempPrefix = ".vfix-install."

const (
	maxConfig  = 16 << 20  // bytes; a larger file is not a configuration
	maxProgram = 512 << 20 // bytes
)

// tree is the root folder that everything happens in. Paths are relative to it, with slashes;
// those that come from outside go through resolve first.
type tree struct {
	root *os.Root
	made []string // folders that were made to have a stateDir
	// step is called before each change to the disk. Tests end the process there.
	step func()
}

func openTree(dir string) (*tree, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{root: r, step: func() {}}, nil
}

func (t *tree) Close() error { return t.root.Close() }

// resolve returns the path, free of symlinks, that a path means inside the root.
func (t *tree) resolve(name string) (string, error) { return rootpath.In(t.root, name) }

// exists reports whether there is something with this name, symlinks resolved in the root.
func (t *tree) exists(name string) bool {
	at, err := t.resolve(name)
	if err != nil {
		return false
	}
	_, err = t.root.Lstat(at)
	return err == nil
}

// content is what a name holds: a file's bytes or a symlink's target. The zero value, nil, is
// nothing.
type content struct {
	data []byte
	link string // for a symlink
	meta meta
}

// meta is what a file has besides its bytes.
type meta struct {
	Mode  fs.FileMode `json:"mode"`
	UID   int         `json:"uid"`
	GID   int         `json:"gid"`
	MTime time.Time   `json:"mtime"`
	Label string      `json:"label,omitempty"` // SELinux's
	// Attrs are the other extended attributes, POSIX ACLs among them; nil: not known, a file of vfix's.
	Attrs map[string][]byte `json:"attrs"`
}

// read returns what a resolved name holds, nil for nothing. Only the name itself may be a
// symlink, and is not followed.
func (t *tree) read(name string, most int64) (*content, error) {
	fi, err := t.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := t.root.Readlink(name)
		return &content{link: target}, err
	case !fi.Mode().IsRegular():
		return nil, hinterr.Errorf(ErrConflict, "/%s: not a regular file", name)
	case fi.Size() > most:
		return nil, hinterr.Errorf(hinterr.ErrDamaged, "/%s: %d bytes, want at most %d", name, fi.Size(), most)
	}
	f, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", name, err)
	}
	return &content{data: data, meta: metaOf(f, fi)}, nil
}

// readText is read for a configuration file whose name may have symlinks in it.
func (t *tree) readText(name string) ([]byte, error) {
	at, err := t.resolve(name)
	if err != nil {
		return nil, err
	}
	c, err := t.read(at, maxConfig)
	if c == nil || err != nil {
		return nil, err
	}
	return c.data, nil
}

// glob returns the files that a pattern with a wildcard in its last part matches, sorted.
func (t *tree) glob(pattern string) ([]string, error) {
	dir, err := t.resolve(path.Dir(pattern))
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(t.root.FS(), dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if ok, err := path.Match(path.Base(pattern), e.Name()); err != nil {
			return nil, err
		} else if ok {
			all = append(all, path.Join(dir, e.Name()))
		}
	}
	slices.Sort(all)
	return all, nil
}

// missing returns the folders that must be made for a file to have its name, outermost first.
func (t *tree) missing(name string) (all []string, err error) {
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		if _, err := t.root.Lstat(d); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err // uninstall removes what is noted as missing
		}
		all = append([]string{d}, all...)
	}
	return all, nil
}

// makeDirs makes folders, and does not mind those that are there.
func (t *tree) makeDirs(dirs []string, mode fs.FileMode) error {
	for _, d := range dirs {
		t.step()
		if err := t.root.Mkdir(d, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// tempName is where the file is written before it gets its name. A folder NAME.d is one whose
// files an engine reads whatever they are called (CRI-O does): there it is the folder above.
func tempName(name string) string {
	dir := path.Dir(name)
	if strings.HasSuffix(dir, ".d") {
		dir = path.Dir(dir)
	}
	return path.Join(dir, tempPrefix+path.Base(name))
}

// write gives a name its content, all at once: what was there is replaced. nil removes it.
func (t *tree) write(name string, c *content) (err error) {
	if c == nil {
		t.step()
		if err := t.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return t.syncDir(path.Dir(name))
	}
	temp := tempName(name)
	t.step()
	if err := t.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			t.root.Remove(temp)
		}
	}()
	if c.link != "" {
		if err := t.root.Symlink(c.link, temp); err != nil {
			return err
		}
	} else if err := t.writeFile(temp, c); err != nil {
		return err
	}
	t.step()
	if err := t.root.Rename(temp, name); err != nil {
		return err
	}
	return t.syncDir(path.Dir(name))
}

// writeFile writes a file with its metadata to the disk.
func (t *tree) writeFile(name string, c *content) error {
	f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	t.step()
	if _, err := f.Write(c.data); err != nil {
		return err
	}
	if err := c.meta.apply(f); err != nil {
		return fmt.Errorf("/%s: %w", name, err)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil || c.meta.MTime.IsZero() {
		return err
	}
	return t.root.Chtimes(name, c.meta.MTime, c.meta.MTime)
}

// syncDir brings a folder's names to the disk; not every filesystem can.
func (t *tree) syncDir(name string) error {
	d, err := t.root.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	defer d.Close()
	_ = d.Sync()
	return nil
}

// removeDir removes a folder if it is empty.
func (t *tree) removeDir(name string) {
	t.step()
	_ = t.root.Remove(name)
}
