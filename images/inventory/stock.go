// What local engines list, without a look into the images.

package inventory

import (
	"context"
	"fmt"
	"time"

	"github.com/moby/moby/client"

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
	err = media.EachDaemon(ctx, "", o.WithDefaults(), func(c *client.Client, host string) (bool, error) {
		v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
		if err != nil {
			return false, fmt.Errorf("docker daemon %s: version: %w", host, err)
		}
		engines = append(engines, host+": "+v.Version)
		all, err := c.ImageList(ctx, client.ImageListOptions{})
		if err != nil {
			return false, fmt.Errorf("docker daemon %s: images: %w", host, err)
		}
		for _, i := range all.Items {
			images = append(images, Stocked{imageName(i.RepoTags, i.ID), time.Unix(i.Created, 0).UTC()})
		}
		return false, nil
	})
	return engines, images, err
}
