// Opening an image by its name alone.

package sources

import (
	"context"
	"errors"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

// openName opens an image by its name alone: in the local daemon, else in its registry. It says so before the
// registry is asked, and does not ask for what was probably meant as a file.
func openName(ctx context.Context, n string, o media.Options) (*media.Source, error) {
	ref, nameErr := name.ParseReference(n)
	if nameErr != nil {
		return nil, media.Mistyped(n)
	}
	src, daemonErr := media.OpenDaemon(ctx, media.Ref{Transport: media.Daemon, Name: n}, o)
	if daemonErr == nil {
		return src, nil
	}
	if ctx.Err() != nil || !errors.Is(daemonErr, hinterr.ErrNotFound) && !errors.Is(daemonErr, hinterr.ErrNoDaemon) {
		return nil, daemonErr
	}
	if err := media.Mistyped(n); err != nil {
		return nil, err
	}
	o.Progress.Note("%s: not a file here and not in a local engine: asking the registry %s", n, ref.Context().RegistryStr())
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
	return nil, &hinterr.Tried{Name: n, Places: []error{errors.New("files: none of that name"), daemonErr, err}}
}
