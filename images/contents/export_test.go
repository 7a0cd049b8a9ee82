package contents

import "os"

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
