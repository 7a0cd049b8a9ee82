// Reading and replacing files below the root directory.

package install

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"vfix.dev/vfix/internal/atomicfile"
)

// tree is the root directory that everything happens in, and what happens.
type tree struct {
	root    string
	dryRun  bool
	planned map[string][]byte // contents of a dry run, by path
	result  *Result
}

// openTree is an error if the root directory does not exist: it must not be made.
func openTree(o Options) (*tree, error) {
	_, err := os.Stat(o.Root)
	return &tree{o.Root, o.DryRun, map[string][]byte{}, &Result{}}, err
}

// file is a file as it must be; one without data must not exist.
type file struct {
	path    string // from the root, with a leading slash
	data    []byte
	program bool
	byHand  bool // a person must change it: data is the text to add, or to remove if remove is set
	remove  bool
}

func (t *tree) at(name string) string { return filepath.Join(t.root, name) }

// read returns the content of a file; nil if it does not exist.
func (t *tree) read(name string) ([]byte, error) {
	if data, is := t.planned[name]; is {
		return data, nil
	}
	data, err := os.ReadFile(t.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// names reports whether a file names the program that engines execute.
func (t *tree) names(name string) bool {
	text, _ := t.read(name)
	return bytes.Contains(text, []byte(RuntimePath))
}

// apply makes a file what it must be, in one step, and records that, with the command that makes an engine read it.
// Whoever opens the file meanwhile gets the old or the new content. Directories that are then empty go as well.
func (t *tree) apply(f file, command string) error {
	now, err := t.read(f.path)
	same := (now == nil) == (f.data == nil) && bytes.Equal(now, f.data)
	if same && err == nil || f.byHand && f.data == nil {
		return nil
	}
	if command != "" {
		t.result.Commands = append(t.result.Commands, command)
	}
	if f.byHand {
		t.result.Blocks = append(t.result.Blocks, Block{f.path, f.remove, string(f.data)})
		return nil
	}
	c := Change{Path: f.path, Removed: f.data == nil, Size: len(f.data)}
	if !f.program {
		c.Text = string(f.data)
	}
	t.result.Changes = append(t.result.Changes, c)
	if t.dryRun {
		t.planned[f.path] = f.data
		return nil
	}
	if f.data != nil {
		return f.write(t.at(f.path))
	}
	if err := os.Remove(t.at(f.path)); err != nil {
		return err
	}
	dir := filepath.Dir(f.path)
	for !standard[dir] && os.Remove(t.at(dir)) == nil { // until something else is in it
		dir = filepath.Dir(dir)
	}
	return nil
}

// standard are directories that a machine has without vfix and its engines.
var standard = map[string]bool{"/": true, "/etc": true, "/usr/local/lib": true, "/usr/share": true, "/var/lib": true}

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
