package engine

import (
	"context"
	"net"
	"path/filepath"

	"github.com/Microsoft/go-winio"
)

// DefaultHost is where docker listens.
const DefaultHost = "npipe:////./pipe/docker_engine"

func dialPipe(ctx context.Context, addr string) (net.Conn, error) {
	return winio.DialPipeContext(ctx, filepath.FromSlash(addr))
}
