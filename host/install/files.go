// Reading and replacing files below the root directory.

package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"vfix.dev/vfix/internal/atomicfile"
)

// tree is the root directory that everything happens in.
type tree struct {
	root   string
	dryRun bool
}

// file is a file as it must be; one without data must not exist.
type file struct {
	path       string // from the root, with a leading slash
	data       []byte
	program    bool
	byHand     bool // a person must change it: data is the text to add, or to remove if remove is set
	remove     bool
	wasDefault bool // the present content makes the runtime the default
}

// openTree is an error if the root directory does not exist: it must not be made.
func openTree(o Options) (tree, error) {
	fi, err := os.Stat(o.Root)
	if err == nil && !fi.IsDir() {
		err = fmt.Errorf("%s: not a directory", o.Root)
	}
	return tree{o.Root, o.DryRun}, err
}

func (t tree) at(name string) string { return filepath.Join(t.root, name) }

// read returns the content of a file; nil if it does not exist.
func (t tree) read(name string) ([]byte, error) {
	data, err := os.ReadFile(t.at(name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

// differs reports whether a file is not yet what it must be.
func (t tree) differs(f file) bool {
	if f.byHand {
		return f.data != nil
	}
	now, err := t.read(f.path)
	return err != nil || (now == nil) != (f.data == nil) || !bytes.Equal(now, f.data)
}

// apply makes a file what it must be, in one step, and records that. Whoever opens the file meanwhile gets the old or the
// new content.
func (t tree) apply(f file, r *Result) error {
	switch {
	case !t.differs(f):
		return nil
	case f.byHand:
		r.Blocks = append(r.Blocks, Block{f.path, f.remove, string(f.data)})
		return nil
	}
	c := Change{Path: f.path, Removed: f.data == nil, Size: len(f.data)}
	if !f.program {
		c.Text = string(f.data)
	}
	r.Changes = append(r.Changes, c)
	switch at := t.at(f.path); {
	case t.dryRun:
		return nil
	case f.data != nil:
		return f.write(at)
	default:
		err := os.Remove(at)
		if f.program {
			_ = os.Remove(filepath.Dir(at)) // with the last program in it
		}
		return err
	}
}

// write replaces a file in one step. A configuration file keeps its owner and mode, and a symlink to it stays.
func (f file) write(at string) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	before, _ := os.Stat(at) // nil: a new file
	out, err := atomicfile.Create(at)
	if err != nil {
		return err
	}
	defer out.Discard()
	mode := fs.FileMode(0o644)
	switch {
	case f.program:
		mode = 0o755
	case before != nil:
		mode = before.Mode().Perm()
		err = sameOwner(out.File, before)
	}
	_, werr := out.Write(f.data)
	if err := errors.Join(err, out.Chmod(mode), werr); err != nil {
		return err
	}
	return out.Commit()
}

// sameOwner gives a file the owner of another one.
func sameOwner(f *os.File, like fs.FileInfo) error {
	st, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}
