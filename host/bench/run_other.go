//go:build !linux || !amd64

package bench

import "context"

// Run returns ErrUnsupported.
func Run(context.Context, Options) ([]Figure, error) { return nil, ErrUnsupported }
