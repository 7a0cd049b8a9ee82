package blob

import (
	"bytes"
	"errors"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

// TestRoom: what the temporary files hold is bounded together, holes are free, and what is closed
// gives its room back.
func TestRoom(t *testing.T) {
	defer Temp.SetLimit(DefaultTempLimit)
	Temp.SetLimit(3 * CopyBuffer)
	data, zeros := bytes.Repeat([]byte{1}, 2*CopyBuffer), make([]byte, 20*CopyBuffer)
	keep := func(s *Spool, b []byte) error {
		_, err := s.KeepStream(bytes.NewReader(b), int64(len(b)))
		return err
	}
	var one, two Spool
	defer two.Close()
	for name, err := range map[string]error{"data": keep(&one, data), "holes": keep(&one, zeros)} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := keep(&two, data); !errors.Is(err, hinterr.ErrTooLarge) {
		t.Errorf("more than there is room for: got %v, want %v", err, hinterr.ErrTooLarge)
	}
	one.Close()
	two.Close()
	if err := keep(&two, data); err != nil {
		t.Errorf("after others were closed: %v", err)
	}
	two.Close()
	if n := Temp.used.Load(); n != 0 {
		t.Errorf("got %d bytes taken by nobody, want 0", n)
	}
}
