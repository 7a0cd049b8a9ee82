// Containers of an engine, found by name or ID.

package media

import (
	"context"
	"fmt"
	"strings"
	"time"

	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/internal/hinterr"
)

// Container is an engine's report of a container.
type Container struct {
	Name     string
	ID       string
	Image    string // as its owner named it
	ImageID  string // of the image it was made of, whatever has that name now
	Program  string // path of what it started
	Running  bool
	PID      int       // of its first process, 0 if it does not run
	Status   int       // exit status
	Finished time.Time // zero if it has not ended
	Error    string    // the engine's, of a start that failed
	// OutOfMemory says that the limit of Memory bytes, 0 for none, ended it. Words are its command and
	// its environment.
	OutOfMemory bool
	Memory      int64
	Words       []string
	// Kernel is the version of the kernel that the engine's containers run on; "" where the engine does not say it, or
	// is not on this machine.
	Kernel string
}

// InContainer calls f with a container, by name or ID, and the first daemon that has it. It errs with ErrNotFound
// if none of them has it, and with ErrNoDaemon if none answers.
func InContainer(ctx context.Context, name string, o Options, f func(*engine.Client, *engine.Container) error) error {
	found := false
	err := EachDaemon(ctx, "", o, func(c *engine.Client) (bool, error) {
		got, err := c.Container(ctx, name)
		if engine.NotFound(err) {
			return false, nil
		}
		if found = true; err == nil {
			err = f(c, got)
		}
		if err != nil {
			err = fmt.Errorf("docker daemon %s: container %s: %w", c.Host, name, err)
		}
		return true, err
	})
	if err == nil && !found {
		err = hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no container %s", name), "'docker ps -a' lists them")
	}
	return err
}

// FindContainer looks for a container as InContainer does.
func FindContainer(ctx context.Context, name string, o Options) (found *Container, err error) {
	err = InContainer(ctx, name, o, func(c *engine.Client, got *engine.Container) (err error) {
		found, err = describeContainer(got)
		if err == nil && strings.HasPrefix(c.Host, "unix://") {
			if v, err := c.Version(ctx); err == nil {
				found.Kernel = v.KernelVersion
			}
		}
		return err
	})
	return found, err
}

func describeContainer(i *engine.Container) (*Container, error) {
	c := &Container{Name: strings.TrimPrefix(i.Name, "/"), ID: i.ID, ImageID: i.Image, Program: i.Path}
	if i.Config != nil {
		c.Image = i.Config.Image
	}
	if i.State == nil {
		return nil, hinterr.Damaged("the engine reports no state")
	}
	c.Error, c.OutOfMemory = i.State.Error, i.State.OOMKilled
	if i.HostConfig != nil {
		c.Memory = i.HostConfig.Memory
	}
	c.Words = append(c.Words, i.Args...)
	if i.Config != nil {
		c.Words = append(c.Words, i.Config.Env...)
	}
	c.Running, c.PID, c.Status = i.State.Running, i.State.Pid, i.State.ExitCode
	// A time that is not there, or the year 1, is one that has not come.
	c.Finished, _ = time.Parse(time.RFC3339Nano, i.State.FinishedAt)
	return c, nil
}
