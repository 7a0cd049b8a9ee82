//go:build !windows

package engine

import (
	"context"
	"errors"
	"net"
)

// DefaultHost is where docker listens.
const DefaultHost = "unix:///var/run/docker.sock"

func dialPipe(context.Context, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
