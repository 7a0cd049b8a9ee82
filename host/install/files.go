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
	path      string // from the root, with a leading slash
	data      []byte
	program   bool
	byHand    bool // a person must change it: data is the text to add, or to remove if remove is set
	remove    bool
	firstStep bool // docker: it only stops making the runtime the default, which takes a restart
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
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
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

// apply makes a file what it must be, in one step, and records that, with the command that makes an engine read it.
// Whoever opens the file meanwhile gets the old or the new content. Directories that are then empty go as well.
func (t tree) apply(f file, command string, r *Result) error {
	if !t.differs(f) {
		return nil
	}
	if command != "" {
		r.Commands = append(r.Commands, command)
	}
	if f.byHand {
		r.Blocks = append(r.Blocks, Block{f.path, f.remove, string(f.data)})
		return nil
	}
	c := Change{Path: f.path, Removed: f.data == nil, Size: len(f.data)}
	if !f.program {
		c.Text = string(f.data)
	}
	r.Changes = append(r.Changes, c)
	if t.dryRun {
		return nil
	}
	if f.data != nil {
		return f.write(t.at(f.path))
	}
	err := os.Remove(t.at(f.path))
	for dir := filepath.Dir(f.path); err == nil && filepath.Dir(dir) != "/" && !standard[dir]; dir = filepath.Dir(dir) {
		if os.Remove(t.at(dir)) != nil { // something else is in it
			break
		}
	}
	return err
}

// standard are directories that a machine has without vfix and its engines, besides those in its root directory.
var standard = map[string]bool{"/usr/local/lib": true, "/usr/share": true, "/var/lib": true}

// write replaces a file. One of the engine's keeps its owner and mode, and a symlink to it stays.
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
		st := before.Sys().(*syscall.Stat_t)
		err = out.Chown(int(st.Uid), int(st.Gid))
	}
	_, werr := out.Write(f.data)
	if err := errors.Join(err, out.Chmod(mode), werr); err != nil {
		return err
	}
	return out.Commit()
}
