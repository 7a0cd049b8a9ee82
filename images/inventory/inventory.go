// The stock of local engines: their images, the containers that run, and which of them call
// the vsyscall page.

package inventory

import (
	"cmp"
	"context"
	"fmt"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/source"
)

// Held is an image of an engine, or a container that runs there.
type Held struct {
	Container string // its name; "" for an image
	Name      string // of the image: a tag, else the head of its ID
	Sites     int    // call sites that no fallback in the image catches, as a scan counts them
	Files     int    // the files that these are in
	Err       error  // why the image could not be examined
}

// Inventory lists the images and containers of the engines.
type Inventory struct {
	Engines []string // their addresses
	Held    []Held   // images, then containers
	LeftOut []string // names of images for which time ran out
}

// held is an image or a running container under way.
type held struct {
	Held
	id, engine string // of the image
	idle       int    // 0 if a container runs it, else 1
	done       bool
}

// eachEngine calls f with every engine that answers and its images.
func eachEngine(ctx context.Context, o source.Options, f func(*source.Engine, []image.Summary) error) error {
	return source.EachEngine(ctx, source.Ref{}, o.WithDefaults(), func(c *source.Engine) (bool, error) {
		all, err := c.ImageList(ctx, client.ImageListOptions{})
		if err != nil {
			return false, fmt.Errorf("docker daemon %s: images: %w", c.Host, err)
		}
		return false, f(c, all.Items)
	})
}

// Take examines every image of every engine that answers, the images of running
// containers first, until all is done or enough ends; ctx ends it with an error. It errs with
// ErrNoDaemon if no engine answers. Of an image with several platforms the one that
// o.Media names counts.
func Take(ctx, enough context.Context, o images.ScanOptions) (*Inventory, error) {
	inv := &Inventory{}
	byID := map[string]*held{}
	var all, containers []*held
	err := eachEngine(ctx, o.Media, func(c *source.Engine, images []image.Summary) error {
		inv.Engines = append(inv.Engines, c.Host)
		for _, i := range images {
			if byID[i.ID] == nil {
				byID[i.ID] = &held{Held: Held{Name: imageName(i.RepoTags, i.ID)}, id: i.ID, engine: c.Host, idle: 1}
				all = append(all, byID[i.ID])
			}
		}
		running, err := c.ContainerList(ctx, client.ContainerListOptions{})
		if err != nil {
			return fmt.Errorf("docker daemon %s: containers: %w", c.Host, err)
		}
		for _, r := range running.Items {
			containers = append(containers, &held{Held: Held{Container: imageName(r.Names, r.ID), Name: r.Image}, id: r.ImageID})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, r := range containers {
		if h := byID[r.id]; h != nil {
			h.idle = 0
		}
	}
	slices.SortStableFunc(all, func(a, b *held) int { return cmp.Or(a.idle-b.idle, strings.Compare(a.Name, b.Name)) })
	o.Media = o.Media.WithDefaults()
	if err := examineAll(ctx, enough, o, all); err != nil {
		return nil, err
	}
	for _, h := range append(all, containers...) {
		of := byID[h.id]
		if of == nil || !of.done {
			inv.LeftOut = append(inv.LeftOut, cmp.Or(h.Container, h.Name))
			continue
		}
		h.Sites, h.Files, h.Err = of.Sites, of.Files, of.Err
		inv.Held = append(inv.Held, h.Held)
	}
	return inv, nil
}

// LocalNames lists the images and containers of the engines that answer, for completion.
func LocalNames(ctx context.Context, o source.Options) (images, containers []string, err error) {
	err = eachEngine(ctx, o, func(c *source.Engine, all []image.Summary) error {
		for _, i := range all {
			images = append(images, tagsOf(i)...)
		}
		ran, err := c.ContainerList(ctx, client.ContainerListOptions{All: true})
		for _, r := range ran.Items {
			containers = append(containers, imageName(r.Names, r.ID))
		}
		return err
	})
	return images, containers, err
}

func tagsOf(i image.Summary) []string {
	return slices.DeleteFunc(slices.Clone(i.RepoTags), func(tag string) bool { return tag == "<none>:<none>" })
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
		err := h.examine(enough, s, o)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if enough.Err() != nil {
			return nil // it was cut off: left out
		}
		h.done, h.Err = true, err
	}
	return nil
}

func (h *held) examine(ctx context.Context, s *contents.Session, o images.ScanOptions) error {
	src, err := source.OpenRef(ctx, source.Ref{Transport: source.Daemon, Name: h.id, Host: h.engine}, o.Media)
	if err != nil {
		return err
	}
	defer src.Close()
	f, err := fallback.Examine(ctx, s, src, &o.Shim)
	if err != nil {
		return err
	}
	if h.Sites, h.Files = f.UncoveredSites(), f.UncoveredFiles(); h.Sites == 0 && !f.Complete() {
		return fmt.Errorf("incomplete: %s", f.IncompleteText())
	}
	return nil
}

// imageName is the first of some names, without docker's leading slash, else an ID's head.
func imageName(names []string, id string) string {
	for _, n := range names {
		if n != "" && n != "<none>:<none>" {
			return strings.TrimPrefix(n, "/")
		}
	}
	const head = 12 // digits, as docker shortens it
	digits := id[strings.IndexByte(id, ':')+1:]
	return digits[:min(len(digits), head)]
}

// Stocked is an image as an engine lists it.
type Stocked struct {
	Name    string
	Created time.Time // by its config
}

// Stock lists the images of every engine that answers, and the engines with their versions. It errs
// with ErrNoDaemon if none answers.
func Stock(ctx context.Context, o source.Options) (engines []string, images []Stocked, err error) {
	err = eachEngine(ctx, o, func(c *source.Engine, all []image.Summary) error {
		v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
		if err != nil {
			return fmt.Errorf("docker daemon %s: version: %w", c.Host, err)
		}
		engines = append(engines, c.Host+": "+v.Version)
		for _, i := range all {
			images = append(images, Stocked{imageName(i.RepoTags, i.ID), time.Unix(i.Created, 0).UTC()})
		}
		return nil
	})
	return engines, images, err
}
