// Opening an image by its name alone.

package sources

import (
	"context"
	"errors"
	"fmt"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

// openName opens an image by its name alone: in the local daemon, else in its registry.
func openName(ctx context.Context, n string, o media.Options) (*media.Source, error) {
	src, daemonErr := media.OpenDaemon(ctx, media.Ref{Transport: media.Daemon, Name: n}, o)
	if daemonErr == nil {
		return src, nil
	}
	if ctx.Err() != nil || !errors.Is(daemonErr, hinterr.ErrNotFound) && !errors.Is(daemonErr, hinterr.ErrNoDaemon) {
		return nil, daemonErr
	}
	src, err := media.OpenRegistry(ctx, media.Ref{Transport: media.Registry, Name: n}, o)
	if err == nil {
		return src, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	// The daemon's hint was for somebody who meant the daemon.
	var h hinterr.Hinted
	if errors.Is(daemonErr, hinterr.ErrNotFound) && errors.As(daemonErr, &h) {
		daemonErr = errors.Unwrap(h)
	}
	return nil, fmt.Errorf("%s: neither a file nor an image: no file of that name; %w; %w", n, daemonErr, err)
}
