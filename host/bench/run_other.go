//go:build !linux || !amd64

package bench

import "context"

// Host returns ErrUnsupported.
func Host(context.Context, Options) ([]Figure, error) { return nil, ErrUnsupported }

// Image returns ErrUnsupported.
func Image(context.Context, string, string, Options) ([]Figure, error) { return nil, ErrUnsupported }

// MeasureRedis returns ErrUnsupported.
func MeasureRedis(context.Context, RedisOptions) ([]Redis, error) { return nil, ErrUnsupported }
