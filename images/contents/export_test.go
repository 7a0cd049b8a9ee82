package contents

// For the tests of this package alone.

type LayerIndex = layerIndex

// NewExaminer returns an examiner of layers.
func NewExaminer(s *Session) *examiner { return &examiner{S: s, Whiteouts: true} }
