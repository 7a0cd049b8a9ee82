// Files of layers that are unpacked into a directory: each is written while its layer is read, before it is known
// whether it is visible, and then moved to its name or removed, so that a layer is read once.

package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
)

// stage is a directory in the directory that is filled. Its files are named after their positions in the image,
// never by a name from an archive.
type stage struct {
	root *os.Root
	name string
}

// path returns the path of member number n of a layer.
func (s *stage) path(layer v1.Hash, n uint32) string {
	return path.Join(s.name, fmt.Sprintf("%s-%d", layer.Hex, n))
}

func (s *stage) take(ctx context.Context, layer v1.Hash, e *contents.Entry, r io.Reader) error {
	f, err := writeNew(ctx, s.root, s.path(layer, e.Number), r)
	if err != nil {
		return err
	}
	return f.Close()
}

// leave renames the stage if the image has a file with its name.
func (s *stage) leave(t *contents.Tree) error {
	from := s.name
	for t.Root.Kids[s.name] != nil {
		s.name += "_"
	}
	if from == s.name {
		return nil
	}
	return s.root.Rename(from, s.name)
}

// place moves the files to their names, and removes those that are not visible. Entries that remain in files were
// not staged: a layer that an image has twice is read once, and files that are too large to stage are not staged.
func (s *stage) place(t *contents.Tree, files map[*contents.Inode][]string, f func(names []string, m *contents.Meta, file *os.File) error) error {
	inOrder := slices.SortedFunc(maps.Keys(files), func(a, b *contents.Inode) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Number, b.Number))
	})
	for _, i := range inOrder {
		names := files[i]
		err := s.root.Rename(s.path(t.Layers[i.Layer].DiffID, i.Number), names[0])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		delete(files, i)
		opened, err := s.root.Open(names[0])
		if err != nil {
			return err
		}
		if err := f(names, &i.Meta, opened); err != nil {
			return err
		}
	}
	return s.root.RemoveAll(s.name)
}
