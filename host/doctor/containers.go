// Which images and containers of this host need vfix. Another package looks into them; this
// one judges what it found.

package doctor

import (
	"context"
	"fmt"
)

// Subject is an image or a running container.
type Subject struct {
	Kind  string // "image" or "container"
	Name  string // as a user names it
	Image string // a container's image
	Needs bool   // it calls the vsyscall page
	Sites int    // call sites that vfix patches, or that its fallback catches
	Files int    // the files that they are in
	Error string // why it could not be looked into; "" otherwise
}

// Inventory is what an engine has.
type Inventory struct {
	Engine   string // its address
	Subjects []Subject
	LeftOut  []string // what there was no time for, and why
}

// ErrNoEngine: there is no docker or podman to ask.
type ErrNoEngine struct{ Why string }

func (e *ErrNoEngine) Error() string { return e.Why }

func checkContainers(ctx context.Context, x *examination, c *Check) error {
	if x.Containers == nil || x.Quick {
		c.found(Skipped, "not looked for (--quick)")
		c.Do = "vfix doctor without --quick, or vfix scan IMAGE"
		return nil
	}
	served, err := x.measure(ctx, nil, "probe", "page:time")
	if err != nil {
		return err
	}
	found, err := x.Containers(ctx)
	if err != nil {
		return err
	}
	judgeContainers(c, found, served.OK())
	return nil
}

func judgeContainers(c *Check, found *Inventory, served bool) {
	c.fact("engine", found.Engine)
	counts := map[string]int{}
	needy, broken := 0, 0
	for _, s := range found.Subjects {
		counts[s.Kind]++
		what := fmt.Sprintf("%-9s  %s", s.Kind, s.Name)
		if s.Image != "" {
			what += " (" + s.Image + ")"
		}
		switch {
		case s.Error != "":
			broken++
			c.Lines = append(c.Lines, fmt.Sprintf("%s  not examined: %s", what, s.Error))
		case s.Needs:
			needy++
			counts[s.Kind+" needs"]++
			c.Lines = append(c.Lines, fmt.Sprintf("%s  needs vfix: %d call sites in %d files", what, s.Sites, s.Files))
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
