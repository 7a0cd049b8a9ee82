package hinterr

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// Each error has its own text, and is found under its kinds.
func TestErrors(t *testing.T) {
	wrapped := Errorf(ErrUnsupported, "a file: %w", io.EOF)
	for _, c := range []struct {
		err        error
		text, hint string
		is         []error
	}{
		{wrapped, "a file: EOF", "", []error{ErrUnsupported, io.EOF}}, {Damaged("%d bytes", 3), "3 bytes", "", []error{ErrDamaged}},
		{With(wrapped, "type %s", "x"), "a file: EOF", "type x", []error{ErrUnsupported, io.EOF}},
		{fmt.Errorf("b: %w", With(io.EOF, "c")), "b: EOF", "c", []error{io.EOF}},
		{&Tried{"x", []error{io.EOF}}, "x: neither a file nor an image: EOF", "", []error{io.EOF}},
		{&Tried{"x", []error{io.EOF, With(ErrNoDaemon, "start it"), wrapped}},
			"x: neither a file nor an image: EOF; no docker or podman daemon answers; a file: EOF", "start it", []error{ErrNoDaemon, ErrUnsupported}},
		{&Tried{Name: "x"}, "x: neither a file nor an image", "", nil},
	} {
		if got, hint := c.err.Error(), HintOf(c.err); got != c.text || hint != c.hint {
			t.Errorf("got %q with the hint %q, want %q, %q", got, hint, c.text, c.hint)
		}
		for _, kind := range c.is {
			if !errors.Is(c.err, kind) {
				t.Errorf("%v: is not found under %v", c.err, kind)
			}
		}
		if errors.Is(c.err, ErrPlatform) {
			t.Errorf("%v: is found under another kind", c.err)
		}
	}
	if err := With(nil, "x"); err != nil {
		t.Errorf("no error: got %v", err)
	}
}
