package media

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

// endless is a list whose pages have nothing in them and always another one behind them.
type endless struct{ pages int }

func (e *endless) HasNext() bool { return true }

func (e *endless) Next(context.Context) (string, error) {
	e.pages++
	return fmt.Sprint("/v2/_catalog?last=", e.pages), nil
}

// A registry's list that does not end is an error.
func TestListEnds(t *testing.T) {
	list := &endless{}
	err := eachPage(t.Context(), func(err error) error { return err }, list, func(next string) (string, error) {
		if list.pages > 2*maxPages {
			return "", errors.New("still not at its end")
		}
		return next, nil
	})
	if !errors.Is(err, hinterr.ErrDamaged) {
		t.Errorf("got %v after %d pages, want %v", err, list.pages, hinterr.ErrDamaged)
	}
}
