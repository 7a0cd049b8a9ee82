// Scanning the file system of a container.

package images

import (
	"context"
	"fmt"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

// scanContainer examines the file system of a container, by name or ID.
func scanContainer(ctx context.Context, s *contents.Session, name string, o media.Options) (*contents.Findings, error) {
	var f *contents.Scanned
	err := media.EachDaemon(ctx, "", o, func(c *engine.Client) (bool, error) {
		got, err := c.Container(ctx, name)
		if engine.NotFound(err) {
			return false, nil
		}
		if err == nil {
			f, err = ExamineContainer(ctx, s, c, got.ID, ContainerPrefix+strings.TrimPrefix(got.Name, "/"))
		}
		if err != nil {
			err = fmt.Errorf("docker daemon %s: container %s: %w", c.Host, name, err)
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no container %s", name), "'docker ps -a' lists them")
	}
	return f.Findings, nil
}

// ContainerPrefix says that a SOURCE is a container.
const ContainerPrefix = "container:"

// ExamineContainer examines the file system of a container.
func ExamineContainer(ctx context.Context, s *contents.Session, c *engine.Client, id, title string) (*contents.Scanned, error) {
	stream, err := c.Export(ctx, id)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return s.Exported(ctx, stream, title)
}
