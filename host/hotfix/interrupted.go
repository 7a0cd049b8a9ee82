// The remains in the engine of a run that was killed while it recreated a container: nothing shows it
// but the names, which no engine can swap in one step.

package hotfix

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/internal/hinterr"
)

// The names that a recreation gives: to the new container until it has the old one's, and to the old one.
const (
	newSuffix  = "-vfix-"
	keptSuffix = "-vfix-old"
)

// leftovers are what killed recreations of one container left.
type leftovers struct {
	made []string // commands that remove a new container, and the image that was made for it
	kept []string // names that the old one may have
}

// findLeftovers asks the engine for what killed recreations of the container name left.
func findLeftovers(ctx context.Context, c *engine.Client, name string) (l leftovers, err error) {
	list, err := c.Containers(ctx, true)
	if err != nil {
		return l, err
	}
	made := regexp.MustCompile("^" + regexp.QuoteMeta(name+newSuffix) + "[0-9a-f]{8}$")
	kept := regexp.MustCompile("^" + regexp.QuoteMeta(name+keptSuffix) + "(-[0-9]+)?$")
	for _, r := range list {
		is := containerOf(r.Names, r.ID)
		switch {
		case made.MatchString(is) && r.State == "created":
			remove := "docker rm " + is
			if strings.HasPrefix(r.Image, keptImages+":") {
				remove += " && docker rmi " + r.Image
			}
			l.made = append(l.made, remove)
		case kept.MatchString(is):
			l.kept = append(l.kept, is)
		}
	}
	return l, nil
}

// notRenamed is the error for a container without its name: the old one has given it up, and the new one has not
// got it. nil if that is not so.
func notRenamed(ctx context.Context, c *engine.Client, name string) error {
	l, err := findLeftovers(ctx, c, name)
	if err != nil || len(l.made) == 0 || len(l.kept) == 0 {
		return err
	}
	err = fmt.Errorf("a run of vfix hotfix --apply was killed before the new container had its name; the old one is %s", strings.Join(l.kept, " or "))
	return hinterr.With(err, "%s && docker rename %s %s, and try again", strings.Join(l.made, " && "), l.kept[len(l.kept)-1], name)
}
