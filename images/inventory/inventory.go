// The stock of local engines: their images, the containers that run, and which of them call
// the vsyscall page.

package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/progress"
)

// Held is an image of an engine, or a container that runs there.
type Held struct {
	Container string // its name; "" for an image
	Name      string // of the image: a tag, else the head of its ID
	Sites     int    // call sites that vfix would patch, or that stay and no fallback covers
	Files     int    // the files that these are in
	Err       error  // why the image could not be examined
}

// Inventory is what the engines have.
type Inventory struct {
	Engines []string // their addresses
	Held    []Held   // images, then containers
	LeftOut []string // names of images that there was no time for
}

// held is an image under way.
type held struct {
	id, name, engine string
	Held
	done bool
}

// stock is what engines list.
type stock struct {
	engines []string
	images  []*held
	byID    map[string]*held
	running []runner
}

// runner is a running container and the ID of its image.
type runner struct {
	Held
	image string
}

// Take examines every image of every engine that answers, the images of running
// containers first, until all is done or enough ends; ctx ends it with an error. It errs with
// ErrNoDaemon if no engine answers. Of an image with several platforms the one that
// o.Media names counts.
func Take(ctx, enough context.Context, o images.ScanOptions) (*Inventory, error) {
	if o.Media.Progress == nil {
		o.Media.Progress = progress.Silent{}
	}
	all := &stock{byID: map[string]*held{}}
	err := media.EachDaemon(ctx, "", o.Media, func(c *engine.Client) (bool, error) {
		return false, all.list(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	if err := examineAll(ctx, enough, o, all.inOrder()); err != nil {
		return nil, err
	}
	inv := &Inventory{Engines: all.engines}
	for _, h := range all.images {
		if !h.done {
			inv.LeftOut = append(inv.LeftOut, h.name)
			continue
		}
		h.Name = h.name
		inv.Held = append(inv.Held, h.Held)
	}
	for _, r := range all.running {
		if h := all.byID[r.image]; h == nil || !h.done {
			inv.LeftOut = append(inv.LeftOut, r.Container)
		} else {
			r.Sites, r.Files, r.Err = h.Sites, h.Files, h.Err
			inv.Held = append(inv.Held, r.Held)
		}
	}
	return inv, nil
}

// list adds what one engine has.
func (s *stock) list(ctx context.Context, c *engine.Client) error {
	s.engines = append(s.engines, c.Host)
	images, err := c.Images(ctx)
	if err != nil {
		return fmt.Errorf("docker daemon %s: images: %w", c.Host, err)
	}
	for _, i := range images {
		if s.byID[i.ID] == nil {
			s.byID[i.ID] = &held{id: i.ID, engine: c.Host, name: imageName(i.RepoTags, i.ID)}
			s.images = append(s.images, s.byID[i.ID])
		}
	}
	containers, err := c.Containers(ctx, false)
	if err != nil {
		return fmt.Errorf("docker daemon %s: containers: %w", c.Host, err)
	}
	for _, r := range containers {
		s.running = append(s.running, runner{Held{Container: imageName(r.Names, r.ID), Name: r.Image}, r.ImageID})
	}
	return nil
}

// LocalNames lists the images and containers of the engines that answer, for completion.
func LocalNames(ctx context.Context, o media.Options) (images, containers []string, err error) {
	err = media.EachDaemon(ctx, "", o.WithDefaults(), func(c *engine.Client) (bool, error) {
		all, err := c.Images(ctx)
		if err != nil {
			return false, err
		}
		for _, i := range all {
			images = append(images, slices.DeleteFunc(slices.Clone(i.RepoTags), func(tag string) bool { return tag == "<none>:<none>" })...)
		}
		ran, err := c.Containers(ctx, true)
		if err != nil {
			return false, err
		}
		for _, r := range ran {
			containers = append(containers, imageName(r.Names, r.ID))
		}
		return false, nil
	})
	return images, containers, err
}

// inOrder sorts the images: those of running containers first, then by name.
func (s *stock) inOrder() []*held {
	rank := func(h *held) int {
		if slices.ContainsFunc(s.running, func(r runner) bool { return r.image == h.id }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(s.images, func(a, b *held) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.name, b.name))
	})
	return s.images
}

// examineAll scans images in turn until enough ends. They share a session, so that a layer
// of several images is read once.
func examineAll(ctx, enough context.Context, o images.ScanOptions, all []*held) error {
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	for _, h := range all {
		if enough.Err() != nil {
			return ctx.Err()
		}
		f, err := examineHeld(enough, s, o, h)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if enough.Err() != nil {
			return nil // it was cut off: left out
		}
		h.done, h.Err = true, err
		if err == nil {
			h.Sites, h.Files = openSites(f)
			if h.Sites == 0 && !f.Complete() {
				h.Err = fmt.Errorf("incomplete: %s", f.UnreadText())
			}
		}
	}
	return nil
}

func examineHeld(ctx context.Context, s *contents.Session, o images.ScanOptions, h *held) (*contents.Findings, error) {
	src, err := media.OpenDaemon(ctx, media.Ref{Transport: media.Daemon, Name: h.id, Host: h.engine}, o.Media)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	f, err := fallback.Examine(ctx, s, src, &o.Shim)
	if err != nil {
		return nil, err
	}
	return f.Findings, nil
}

// openSites counts the sites that a rebuild would patch, and those that stay uncovered, and the
// files that have any.
func openSites(f *contents.Findings) (sites, files int) {
	for i := range f.Files {
		file := &f.Files[i]
		n := 0
		if !file.Plan.Empty() {
			for _, p := range file.Plan.Patches {
				if len(p.After) > 0 {
					n++
				}
			}
		}
		if file.Covered == "" {
			n += len(file.Plan.LeftOver())
		}
		if n > 0 {
			sites, files = sites+n, files+1
		}
	}
	return sites, files
}

// imageName is the first of some names, without docker's leading slash, else an ID's head.
func imageName(names []string, id string) string {
	for _, n := range names {
		if n != "" && n != "<none>:<none>" {
			return strings.TrimPrefix(n, "/")
		}
	}
	const head = 12 // digits, as docker shortens it
	_, digits, ok := strings.Cut(id, ":")
	if !ok {
		digits = id
	}
	return digits[:min(len(digits), head)]
}

// The lists of local engines, without a look into the images.

// Stocked is an image as an engine lists it.
type Stocked struct {
	Name    string
	Created time.Time // by its config
}

// Stock lists the images of every engine that answers, and the engines with their versions. It errs
// with ErrNoDaemon if none answers.
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
