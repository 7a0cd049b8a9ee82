package images

import (
	"context"
	"errors"
	"fmt"
)

// openName opens an image by its name alone: in the local daemon, else in its registry.
func openName(ctx context.Context, n string, o MediaOptions) (*Source, error) {
	src, daemonErr := openDaemon(ctx, Ref{Transport: Daemon, Name: n}, o)
	if daemonErr == nil {
		return src, nil
	}
	if ctx.Err() != nil || !errors.Is(daemonErr, ErrNotFound) && !errors.Is(daemonErr, ErrNoDaemon) {
		return nil, daemonErr
	}
	src, err := openRegistry(ctx, Ref{Transport: Registry, Name: n}, o)
	if err == nil {
		return src, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	// The daemon's hint was for somebody who meant the daemon.
	var h Hinted
	if errors.Is(daemonErr, ErrNotFound) && errors.As(daemonErr, &h) {
		daemonErr = errors.Unwrap(h)
	}
	return nil, fmt.Errorf("%s: neither a file nor an image: no file of that name; %w; %w", n, daemonErr, err)
}
