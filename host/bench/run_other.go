//go:build !linux || !amd64

package bench

import (
	"context"

	"vfix.dev/vfix/internal/hinterr"
)

// Run returns an error.
func Run(context.Context, Options) ([]Figure, error) {
	return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "vfix bench works on linux/amd64 alone"), "run it on x86-64 Linux")
}
