// Images that a current engine may not pull again: registries have them as they were pushed, and
// Docker before 1.10 pushed manifests of schema 1.

package doctor

import (
	"fmt"
	"time"
)

// docker110 is when Docker 1.10 came, which pushes manifests of schema 2 where the registry takes them.
var docker110 = time.Date(2016, time.February, 4, 0, 0, 0, 0, time.UTC)

func checkSchema1(x *examination, c *Check) {
	if x.Stock == nil {
		c.found(Skipped, "not looked for")
		return
	}
	engines, images, err := x.Stock(x.ctx)
	must(err)
	for _, e := range engines {
		c.line("%s", e)
	}
	old := 0
	for _, i := range images {
		// Builds that are made to be reproducible have the year 1970 or 1980.
		if i.Created.Before(docker110) && i.Created.Year() >= firstDocker {
			old++
			c.line("%s, created %s", i.Name, i.Created.Format(time.DateOnly))
		}
	}
	c.figure("images", float64(len(images)), "images")
	c.figure("old_images", float64(old), "images")
	found := fmt.Sprintf("%d of %d images are older than Docker 1.10", old, len(images))
	if old == 0 {
		c.found(OK, "%s", found)
		return
	}
	c.found(Warn, "%s", found)
	c.Means = "their registry may have them as manifests of schema 1, which Docker 28.2 and containerd 2.1 refuse: then an image that is removed here cannot be pulled again"
	c.Do = "'vfix convert docker-daemon:IMAGE -o docker://IMAGE' pushes it in a current format; 'vfix convert docker://IMAGE -o docker-daemon:IMAGE' pulls what an engine refuses"
}

// firstDocker is the year of the first Docker.
const firstDocker = 2013
