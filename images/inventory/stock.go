// What local engines list, without a look into the images.

package inventory

import (
	"context"
	"fmt"
	"time"

	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/media"
)

// Stocked is an image as an engine lists it.
type Stocked struct {
	Name    string
	Created time.Time // by its config
}

// Stock lists the images of every engine that answers, and the engines with their versions. It errs
// with ErrNoDaemon where none answers.
func Stock(ctx context.Context, o media.Options) (engines []string, images []Stocked, err error) {
	err = media.EachDaemon(ctx, "", o.WithDefaults(), func(c *engine.Client) (bool, error) {
		v, err := c.Version(ctx)
		if err != nil {
			return false, fmt.Errorf("docker daemon %s: version: %w", c.Host, err)
		}
		engines = append(engines, c.Host+": "+v.Version)
		all, err := c.Images(ctx)
		if err != nil {
			return false, fmt.Errorf("docker daemon %s: images: %w", c.Host, err)
		}
		for _, i := range all {
			images = append(images, Stocked{imageName(i.RepoTags, i.ID), time.Unix(i.Created, 0).UTC()})
		}
		return false, nil
	})
	return engines, images, err
}
