package contents

import "io"

// For the tests of this package alone.

type (
	Examiner   = examiner
	LayerIndex = layerIndex
)

var (
	NewLayerCache = newLayerCache
)

// ExamineAt examines a file.
func ExamineAt(s *Session, name string, r io.ReaderAt, size int64, keep bool) error {
	_, err := s.examineAt(name, r, size, keep)
	return err
}
