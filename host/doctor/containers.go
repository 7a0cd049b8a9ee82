// The images and containers that need vfix, the images that a current engine may not pull again, and the configuration of
// vfix-runtime.

package doctor

import (
	"fmt"
	"strings"
	"time"

	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/images/inventory"
	"vfix.dev/vfix/internal/hinterr"
)

func checkContainers(x *examination, c *Check) {
	if x.Containers == nil || x.Quick {
		c.found(Skipped, "not looked for (--quick)")
		c.Do = "vfix doctor without --quick, or vfix scan IMAGE"
		return
	}
	served := x.run(nil, "probe", "page:time")
	found, err := x.Containers(x.ctx)
	must(err)
	judgeContainers(c, found, served.OK())
}

func judgeContainers(c *Check, found *inventory.Inventory, served bool) {
	c.fact("engine", strings.Join(found.Engines, " "))
	counts := map[string]int{}
	needy, broken := 0, 0
	for _, s := range found.Held {
		kind, what := "image", fmt.Sprintf("%-9s  %s", "image", s.Name)
		if s.Container != "" {
			kind, what = "container", fmt.Sprintf("container  %s (%s)", s.Container, s.Name)
		}
		counts[kind]++
		switch {
		case s.Err != nil:
			broken++
			c.line("%s  not examined: %v", what, s.Err)
		case s.Sites > 0:
			needy++
			counts[kind+" needs"]++
			c.line("%s  needs vfix: %d call sites in %d files", what, s.Sites, s.Files)
		}
	}
	for _, kind := range []string{"image", "container"} {
		c.figure(kind+"s", float64(counts[kind]), kind+"s")
		c.figure(kind+"s_that_need_vfix", float64(counts[kind+" needs"]), kind+"s")
	}
	for _, l := range found.LeftOut {
		c.note("left out: %s", l)
	}
	found1 := fmt.Sprintf("%d of %d images and %d of %d running containers need vfix",
		counts["image needs"], counts["image"], counts["container needs"], counts["container"])
	switch {
	case needy > 0 && !served:
		c.found(Fail, "%s", found1)
		c.Means = "they crash on this host"
		c.Do = "vfix rebuild NAME for each"
	case needy > 0:
		c.found(Warn, "%s", found1)
		c.Means = "they run here, slowly, and crash on a host with vsyscall=none"
		c.Do = "vfix rebuild NAME for each"
	case broken > 0 || len(found.LeftOut) > 0:
		c.found(Warn, "%s, of those that were examined", found1)
		c.Means = "the rest is unknown"
		c.Do = "vfix scan NAME for each of the rest"
	default:
		c.found(OK, "%s", found1)
	}
}

// docker110 is when Docker 1.10 came, which pushes manifests of schema 2 where the registry takes them; registries have
// images as they were pushed.
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

const firstDocker = 2013

func checkPolicy(x *examination, c *Check) {
	if x.Policy == nil {
		c.found(Skipped, "not looked for")
		return
	}
	p := x.Policy()
	c.fact("source", string(p.Source))
	c.fact("file", p.Path)
	what := "containers that cannot be patched start as they are"
	if p.FailClosed {
		what = "containers that cannot be patched do not start"
	}
	c.Means = "with vfix-runtime, " + what
	switch p.Source {
	case starts.FromFile:
		c.found(OK, "%s is in force", p.Path)
		if err := p.RefusesAll(); err != nil {
			c.found(Fail, "%s: %v", p.Path, err)
			c.Do = hinterr.HintOf(err)
		}
	case starts.Defaults:
		c.found(OK, "no %s: the defaults are in force", p.Path)
	default:
		c.found(Warn, "%s", p.Why())
		if p.Source == starts.ClosedDefault {
			c.Verdict = Fail
		}
		c.Do = "correct " + p.Path + ", and check it with 'vfix runtime check'; {} means the defaults"
	}
}
