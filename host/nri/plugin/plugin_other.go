//go:build !linux

package plugin

import (
	"context"
	"errors"
)

// Run is for Linux.
func Run(context.Context, Options) error {
	return errors.New("NRI plugins run on Linux only")
}
