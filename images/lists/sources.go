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
	seen map[string]bool // names repeat in clusters and engines
}

// add lists an image, once, if its name is wanted. Names of pods and tags are untrusted: a space in a name would split it
// in a list, and the second word would be the destination of a result.
func (l *lister) add(source string) error {
	if strings.ContainsFunc(source, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }) {
		progress.Note(l.o.Media.Progress, "%q: not the name of an image: left out", source)
		return nil
	}
	wanted := len(l.o.Match) == 0 || slices.ContainsFunc(l.o.Match, func(r *regexp.Regexp) bool { return r.MatchString(source) })
	if !wanted || l.seen[source] {
		return nil
	}
	l.seen[source] = true
	return l.o.Each(source)
}

// engines lists the images of every engine that answers.
func (l *lister) engines(ctx context.Context) error {
	for e, err := range source.Engines(ctx, "", l.o.Media) {
		if err != nil {
			return err
		}
		all, err := e.ImageList(ctx, client.ImageListOptions{})
		if err != nil {
			return fmt.Errorf("docker daemon %s: images: %w", e.Host, err)
		}
		for _, i := range all.Items {
			for _, tag := range i.RepoTags {
				if tag == "<none>:<none>" {
					continue
				}
				if err := l.add(Engines + tag); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// registry lists a registry, or what is below a path there. A repository that cannot be read leaves the others. A
// registry without a list of its repositories is queried for the tags of that path.
func (l *lister) registry(ctx context.Context, where string) error {
	host, prefix, _ := strings.Cut(where, "/")
	prefix = strings.TrimSuffix(prefix, "/")
	all, err := source.Repositories(ctx, host, prefix, l.o.Media)
	unlisted := len(all) == 0 && prefix != "" && ctx.Err() == nil
	if unlisted {
		progress.Note(l.o.Media.Progress, "%s: the registry does not list this repository; reading its tags directly", where)
		repo, nameErr := name.NewRepository(where, source.NameOptions(l.o.Media.Insecure)...)
		if nameErr != nil {
			return source.BadName(where, nameErr)
		}
		all, err = []name.Repository{repo}, nil
	}
	failed := []error{err}
	for _, repo := range all {
		tags, err := source.Tags(ctx, repo, l.o.Media)
		for _, t := range tags { // as other verbs take it
			if err := l.add("docker://" + strings.Replace(t.Name(), name.DefaultRegistry+"/", "docker.io/", 1)); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if unlisted || !errors.Is(err, hinterr.ErrNotFound) { // a repository without tags stays in the list
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
