//go:build !linux || !amd64

package nri

import (
	"context"
	"errors"
)

// Serve returns an error: patched containers run on Linux for amd64.
func Serve(context.Context, Options, []byte) error {
	return errors.New("use vfix for linux/amd64")
}
