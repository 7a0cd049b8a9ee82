// Reading and writing files in the root directory that an installation is made in.

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

// tempPrefix begins the names of files that are not finished. The next run overwrites those of a killed run,
// because it uses the same names.
const tempPrefix = ".vfix-install."

const maxFile = 512 << 20 // bytes; nothing larger is installed, or edited

// tree is the root directory that everything happens in. Paths are relative to it, with slashes;
// those that come from outside go through resolve first.
//
// The first error stays in err: the plan is completed with what could be read, and from then on nothing is
// written.
type tree struct {
	root *os.Root
	old  *state   // what was recorded before
	made []string // directories that were made to have a stateDir
	err  error
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

// failed keeps an error if it is the first, and reports whether there was one.
func (t *tree) failed(err error) bool {
	if t.err == nil {
		t.err = err
	}
	return t.err != nil
}

// refuse is failed with an error of a kind, and what to do about it, "" for nothing.
func (t *tree) refuse(kind error, hint, format string, a ...any) {
	err := hinterr.Errorf(kind, format, a...)
	if hint != "" {
		err = hinterr.With(err, "%s", hint)
	}
	t.failed(err)
}

// resolve returns a path inside the root with all symlinks resolved.
func (t *tree) resolve(name string) string {
	at, err := rootpath.In(t.root, name)
	t.failed(err)
	return at
}

// exists reports whether there is something with this name, symlinks resolved in the root.
func (t *tree) exists(name string) bool {
	at, err := rootpath.In(t.root, name)
	if err == nil {
		_, err = t.root.Lstat(at)
	}
	return err == nil
}

// content is what a name holds: a file's bytes or a symlink's target. The zero value, nil, is
// nothing.
type content struct {
	data []byte
	link string // for a symlink
	meta meta
}

// bytes is what a file holds; nil without one.
func (c *content) bytes() []byte {
	if c == nil {
		return nil
	}
	return c.data
}

// meta is the metadata of a file.
type meta struct {
	Mode  fs.FileMode `json:"mode"`
	UID   int         `json:"uid"`
	GID   int         `json:"gid"`
	MTime time.Time   `json:"mtime"`
	// Attrs are the extended attributes, SELinux's label and POSIX ACLs among them; nil: not known, a file of vfix's.
	Attrs map[string][]byte `json:"attrs"`
}

// fresh is a new file of vfix's own.
func fresh(data []byte, mode fs.FileMode) *content {
	return &content{data: data, meta: meta{Mode: mode, UID: os.Geteuid(), GID: os.Getegid()}}
}

// load returns the content of a resolved name, nil for nothing. Only its last element may be a symlink, which
// is not followed.
func (t *tree) load(name string) (*content, error) {
	fi, err := t.root.Lstat(name)
	switch {
	case err != nil:
		return nil, unlessGone(err)
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := t.root.Readlink(name)
		return &content{link: target}, err
	case !fi.Mode().IsRegular():
		return nil, hinterr.Errorf(ErrConflict, "/%s: not a regular file", name)
	case fi.Size() > maxFile:
		return nil, hinterr.Errorf(hinterr.ErrDamaged, "/%s: %d bytes, want at most %d", name, fi.Size(), maxFile)
	}
	f, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", name, err)
	}
	return &content{data: data, meta: metaOf(f, fi)}, nil
}

// read is load; an error counts.
func (t *tree) read(name string) *content {
	c, err := t.load(name)
	t.failed(err)
	return c
}

// look returns the bytes of a file whose name may have symlinks in it, nil without one.
func (t *tree) look(name string) ([]byte, error) {
	at, err := rootpath.In(t.root, name)
	if err != nil {
		return nil, err
	}
	c, err := t.load(at)
	return c.bytes(), err
}

// text is look; an error counts.
func (t *tree) text(name string) []byte {
	data, err := t.look(name)
	t.failed(err)
	return data
}

// names lists a directory; none if it cannot be read.
func (t *tree) names(dir string) (all []string) {
	at, err := rootpath.In(t.root, dir)
	if err != nil {
		return nil
	}
	entries, _ := fs.ReadDir(t.root.FS(), at)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// glob returns the files that a pattern with a wildcard in its last part matches, sorted.
func (t *tree) glob(pattern string) (all []string) {
	dir := t.resolve(path.Dir(pattern))
	entries, err := fs.ReadDir(t.root.FS(), dir)
	t.failed(unlessGone(err))
	for _, e := range entries {
		if ok, err := path.Match(path.Base(pattern), e.Name()); !t.failed(err) && ok {
			all = append(all, path.Join(dir, e.Name()))
		}
	}
	return all
}

// missing returns the directories that must be made for a file to have its name, outermost first.
func (t *tree) missing(name string) (all []string) {
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		_, err := t.root.Lstat(d)
		if err == nil || t.failed(unlessGone(err)) { // uninstall removes what is noted as missing
			break
		}
		all = append([]string{d}, all...)
	}
	return all
}

// makeDirs makes directories, unless they exist.
func (t *tree) makeDirs(dirs []string) {
	for _, d := range dirs {
		if t.err != nil {
			return
		}
		t.step()
		if err := t.root.Mkdir(d, 0o755); !errors.Is(err, fs.ErrExist) {
			t.failed(err)
		}
	}
}

// tempName is where the file is written before it gets its name. A directory NAME.d is one whose
// files an engine reads whatever they are called (CRI-O does): there it is the directory above.
func tempName(name string) string {
	dir := path.Dir(name)
	if strings.HasSuffix(dir, ".d") {
		dir = path.Dir(dir)
	}
	return path.Join(dir, tempPrefix+path.Base(name))
}

// write replaces the content of a name atomically. nil removes it.
func (t *tree) write(name string, c *content) {
	if t.err != nil {
		return
	}
	if c == nil {
		t.failed(t.remove(name))
	} else {
		t.failed(t.replace(name, c))
	}
	if d, err := t.root.Open(path.Dir(name)); err == nil { // its names go to the disk; not every filesystem can
		_ = d.Sync()
		d.Close()
	}
}

func (t *tree) remove(name string) error {
	t.step()
	return unlessGone(t.root.Remove(name))
}

// replace writes a temporary file, or makes a link, and renames it.
func (t *tree) replace(name string, c *content) (err error) {
	temp := tempName(name)
	if err := t.remove(temp); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			t.root.Remove(temp)
		}
	}()
	if c.link != "" {
		err = t.root.Symlink(c.link, temp)
	} else {
		err = t.writeFile(temp, c)
	}
	if err != nil {
		return err
	}
	t.step()
	return t.root.Rename(temp, name)
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
	if err := errors.Join(f.Sync(), f.Close()); err != nil || c.meta.MTime.IsZero() {
		return err
	}
	return t.root.Chtimes(name, c.meta.MTime, c.meta.MTime)
}

// removeDir removes a directory if it is empty.
func (t *tree) removeDir(name string) {
	t.step()
	_ = t.root.Remove(name)
}

// open opens a file whose name may have symlinks in it.
func (t *tree) open(name string) (*os.File, error) {
	at, err := rootpath.In(t.root, name)
	if err != nil {
		return nil, err
	}
	return t.root.Open(at)
}

// unlessGone is err, except for what is not there.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// union adds to a list what is not in it.
func union[T comparable](all []T, more ...T) []T {
	for _, m := range more {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}
