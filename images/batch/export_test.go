package batch

// For the tests of this package alone.

import (
	"context"
	"io"

	"vfix.dev/vfix/images/outcome"
)

// Has is has.
func (p Part) Has(i outcome.Item) bool { return p.has(i) }

// MinCompacted is minCompacted.
const MinCompacted = minCompacted

var (
	FillTemplate = fillTemplate
	PlainName    = plainName
)

// AddAfterCut adds a line to a state file behind one that a full disk has cut off.
func AddAfterCut(path string, out outcome.Image) error {
	s, err := openState(context.Background(), path, Part{}, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.add(out, "", "x"); err != nil {
		return err
	}
	f := s.files[0]
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if _, err := f.Write([]byte(`{"schema":1,"source":"docker://r.example/c`)); err != nil {
		return err
	}
	return s.add(out, "", "x")
}
