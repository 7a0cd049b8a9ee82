// Containers of an engine, found by name or ID.

package media

import (
	"context"
	"strings"
	"time"

	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/internal/hinterr"
)

// Container is an engine's report of a container.
type Container struct {
	*engine.Container
	Finished time.Time // zero if it has not ended
	// Kernel is the version of the kernel that the engine's containers run on; "" where the engine does not say it, or
	// is not on this machine.
	Kernel string
}

// InContainer calls f with a container, by name or ID, and the first daemon that has it. It errs with ErrNotFound
// if none of them has it, and with ErrNoDaemon if none answers.
func InContainer(ctx context.Context, name string, o Options, f func(*engine.Client, *engine.Container) error) error {
	found, err := inDaemon(ctx, "", "container "+name, o, func(c *engine.Client) (*engine.Container, error) { return c.Container(ctx, name) }, f)
	if err == nil && !found {
		err = hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no container %s", name), "'docker ps -a' lists them")
	}
	return err
}

// FindContainer looks for a container as InContainer does.
func FindContainer(ctx context.Context, name string, o Options) (found *Container, err error) {
	err = InContainer(ctx, name, o, func(c *engine.Client, got *engine.Container) error {
		if got.State == nil || got.Config == nil || got.HostConfig == nil {
			return hinterr.Damaged("the engine reports no state")
		}
		found = &Container{Container: got}
		// A missing time, or the year 1, means that it has not ended.
		found.Finished, _ = time.Parse(time.RFC3339Nano, got.State.FinishedAt)
		if strings.HasPrefix(c.Host, "unix://") {
			if v, err := c.Version(ctx); err == nil {
				found.Kernel = v.KernelVersion
			}
		}
		return nil
	})
	return found, err
}
