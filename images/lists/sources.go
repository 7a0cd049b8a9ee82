// Lists of images as input of other verbs: of a registry, of local engines, of a cluster.

package lists

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"

	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// ListOptions say what is listed.
type ListOptions struct {
	Media source.Options
	Match []*regexp.Regexp // names, of which one must match; none: all do
	Stdin io.Reader        // of the SOURCE -
	// Each gets the images in turn, as a SOURCE of other verbs; an error ends the list.
	Each func(source string) error
}

// Engines is the SOURCE of all local engines.
const Engines = "docker-daemon:"

// List lists the images of a SOURCE: docker://HOST[/PREFIX], Engines, or - for the JSON of
// kubectl on Stdin.
func List(ctx context.Context, source string, o ListOptions) error {
	o.Media = o.Media.WithDefaults()
	l := &lister{o: o, seen: map[string]bool{}}
	where, isRegistry := strings.CutPrefix(source, "docker://")
	switch {
	case isRegistry:
		return l.registry(ctx, where)
	case source == Engines:
		return l.engines(ctx)
	case source == "-":
		return eachImage(o.Stdin, func(image string) error { return l.add("docker://" + image) })
	}
	return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: cannot list its images", source),
		"want docker://HOST, docker://HOST/PREFIX, or - for the output of 'kubectl get pods -A -o json'")
}

type lister struct {
	o    ListOptions
	seen map[string]bool // of clusters and engines, where names repeat
	stop error           // of Each, which ends the list
}

// matches reports whether a name is wanted. Names of pods and tags are untrusted: a space in a name would
// split it in a list, and the second word would be the destination of a result.
func (l *lister) matches(source string) bool {
	if strings.ContainsFunc(source, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }) {
		progress.Note(l.o.Media.Progress, "%q: not the name of an image: left out", source)
		return false
	}
	return len(l.o.Match) == 0 || slices.ContainsFunc(l.o.Match, func(r *regexp.Regexp) bool { return r.MatchString(source) })
}

// add lists an image, once.
func (l *lister) add(source string) error {
	if l.seen[source] || !l.matches(source) {
		return nil
	}
	l.seen[source] = true
	return l.o.Each(source)
}

func (l *lister) engines(ctx context.Context) error {
	return eachEngine(ctx, l.o.Media, func(all []image.Summary) error {
		for _, i := range all {
			for _, tag := range i.RepoTags {
				if tag == "<none>:<none>" {
					continue
				}
				if err := l.add(Engines + tag); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// registry lists a registry, or what is below a path there. A registry without a list of its
// repositories is queried for the tags of that path.
func (l *lister) registry(ctx context.Context, where string) error {
	host, prefix, _ := strings.Cut(where, "/")
	prefix = strings.TrimSuffix(prefix, "/")
	var failed []error
	found := false
	err := source.EachRepository(ctx, host, prefix, l.o.Media, func(repo name.Repository) error {
		found = true
		err := l.repository(ctx, repo)
		if l.stop != nil || ctx.Err() != nil {
			return err
		}
		// A repository without tags stays in the list, and is not found.
		if err != nil && !errors.Is(err, hinterr.ErrNotFound) {
			failed = append(failed, err)
		}
		return nil
	})
	if l.stop == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !found && prefix != "" { // where some were found, it has one
		repo, nameErr := name.NewRepository(where, source.NameOptions(l.o.Media.Insecure)...)
		if nameErr != nil {
			return source.BadName(where, nameErr)
		}
		progress.Note(l.o.Media.Progress, "%s: the registry does not list this repository; reading its tags directly", where)
		err = l.repository(ctx, repo)
	}
	if l.stop != nil {
		return l.stop
	}
	return errors.Join(append(failed, err)...)
}

func (l *lister) repository(ctx context.Context, repo name.Repository) error {
	return source.EachTags(ctx, repo, l.o.Media, func(tags []name.Tag) error {
		for _, t := range tags {
			image := sourceOf(t)
			if !l.matches(image) {
				continue
			}
			if l.stop = l.o.Each(image); l.stop != nil {
				return l.stop
			}
		}
		return nil
	})
}

// sourceOf is a tag as other verbs take it.
func sourceOf(t name.Tag) string {
	return "docker://" + strings.Replace(t.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
}

// eachEngine calls f with the images of every engine that answers.
func eachEngine(ctx context.Context, o source.Options, f func([]image.Summary) error) error {
	return source.EachEngine(ctx, source.Ref{}, o, func(c *source.Engine) (bool, error) {
		all, err := c.ImageList(ctx, client.ImageListOptions{})
		if err != nil {
			return false, fmt.Errorf("docker daemon %s: images: %w", c.Host, err)
		}
		return false, f(all.Items)
	})
}
