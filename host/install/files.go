// Reading and replacing files below the root directory.

package install

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
// Whoever opens the file meanwhile gets the old or the new content. A directory that is then empty goes as well.
func (t *tree) apply(c Change, command string) error {
	now, err := t.read(c.Path)
	if err != nil {
		return err
	}
	var want []byte // nil: no file
	if !c.Removed {
		want = slices.Concat([]byte(c.Text), c.program)
	}
	c.Size = len(want)
	done := bytes.Equal(now, want)
	if c.ByHand {
		done = t.names(c.Path) != c.Removed
	} else if c.Removed {
		c.Text = ""
	}
	if done {
		return nil
	}
	t.result.Changes = append(t.result.Changes, c)
	if command != "" {
		t.result.Commands = append(t.result.Commands, command)
	}
	switch {
	case c.ByHand:
		return nil
	case t.dryRun:
		t.planned[c.Path] = want
		return nil
	case !c.Removed:
		return write(t.at(c.Path), want, c.program != nil)
	}
	err = os.Remove(t.at(c.Path))
	_ = os.Remove(filepath.Dir(t.at(c.Path))) // it fails if something else is in it
	return err
}

// write replaces a file. One of the engine's keeps its owner and has no more rights, and a symlink to it stays.
func write(at string, data []byte, program bool) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	before, _ := os.Stat(at) // nil: a new file
	out, err := atomicfile.Create(at)
	if err != nil {
		return err
	}
	defer out.Discard()
	_, err = out.Write(data)
	if program {
		err = errors.Join(err, out.Chmod(0o755))
	} else if before != nil {
		st := before.Sys().(*syscall.Stat_t)
		err = errors.Join(err, out.Chown(int(st.Uid), int(st.Gid)))
	}
	if err != nil {
		return err
	}
	return out.Commit()
}
