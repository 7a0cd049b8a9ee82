// Which images and containers of this host need vfix.

package doctor

import (
	"fmt"
	"strings"

	"vfix.dev/vfix/images/inventory"
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
		c.Means = "nothing is known of the rest"
		c.Do = "vfix scan NAME for each of the rest"
	default:
		c.found(OK, "%s", found1)
	}
}
