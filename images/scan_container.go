// Scanning the file system of a container.

package images

import (
	"context"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/media"
)

// scanContainer examines the file system of a container, by name or ID.
func scanContainer(ctx context.Context, s *contents.Session, name string, o media.Options) (*contents.Findings, error) {
	var f *contents.Scanned
	err := media.InContainer(ctx, name, o, func(c *engine.Client, got *engine.Container) (err error) {
		f, err = ExamineContainer(ctx, s, c, got.ID, ContainerPrefix+strings.TrimPrefix(got.Name, "/"))
		return err
	})
	if err != nil {
		return nil, err
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
