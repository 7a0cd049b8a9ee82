package contents

import (
	"context"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// For the tests of this package alone.

type LayerIndex = layerIndex

// NewExaminer returns an examiner of layers.
func NewExaminer(s *Session) *examiner { return &examiner{S: s, Layer: true} }

// Give sets the metadata of an open file.
func (e *Entry) Give(to *os.File) ([]string, error) { return e.give(to) }

// OpenedEntry is the entry of an open file.
func OpenedEntry(f *os.File) (*Entry, error) {
	e, _, err := openedEntry(f)
	return e, err
}

// AddLayer reads a layer and stacks it on a tree.
func (s *Session) AddLayer(ctx context.Context, t *Tree, l v1.Layer) error {
	idx, err := s.readLayer(ctx, l)
	if err != nil {
		return err
	}
	t.progress = s.Progress
	return t.stack(idx, l)
}

// Apply puts the entries of a layer on a tree whose files are not read.
func (t *Tree) Apply(idx *layerIndex) error { return t.stack(idx, nil) }
