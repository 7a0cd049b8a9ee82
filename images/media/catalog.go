// The repositories of a registry and their tags (distribution-spec, "Listing Tags"; the list of
// repositories is distribution's own, "Listing Repositories", and not every registry has it).

package media

import (
	"context"
	"errors"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/lazy"
)

// EachRepository calls f for the repositories of a registry whose names are prefix, or begin with it and
// a slash; "" is for all.
func EachRepository(ctx context.Context, host, prefix string, o Options, f func(name.Repository) error) error {
	reg, err := name.NewRegistry(host, registry.NameOptions(o.Insecure)...)
	if err != nil {
		return BadName(host, err)
	}
	p, err := remote.NewPuller(o.Net.CatalogOptions(ctx)...)
	if err != nil {
		return err
	}
	wrong := func(err error) error { return repositoriesError(ctx, reg, jsonobject.InWords(err)) }
	list, err := p.Catalogger(ctx, reg)
	if err != nil {
		return wrong(err)
	}
	return eachPage(ctx, wrong, list, func(page *remote.Catalogs) (string, error) {
		for _, repo := range page.Repos {
			if prefix != "" && repo != prefix && !strings.HasPrefix(repo, prefix+"/") {
				continue
			}
			if err := f(reg.Repo(repo)); err != nil {
				return "", err
			}
		}
		return page.Next, nil
	})
}

// repositoriesError is RegistryError about the list of repositories. Docker Hub has none, and answers 401.
func repositoriesError(ctx context.Context, reg name.Registry, err error) error {
	err = registryError(ctx, reg, "list of repositories", "the registry has none", err)
	one := "name one of its repositories: docker://" + reg.RegistryStr() + "/REPOSITORY"
	switch {
	case errors.Is(err, hinterr.ErrNotFound):
		return hinterr.With(err, "%s", one)
	case errors.Is(err, hinterr.ErrUnauthorized):
		return hinterr.With(err, "docker login %s; without the right to list them, %s", reg.RegistryStr(), one)
	}
	return err
}

// maxPages is how many pages a list may have: a million images where a page has 100.
const maxPages = 10_000

// eachPage calls f for each page of a registry's list; f returns the address of the next one. wrong
// words an error. Some registries name the same page again and again, or one more without an end.
func eachPage[P any](ctx context.Context, wrong func(error) error, list interface {
	HasNext() bool
	Next(context.Context) (P, error)
}, f func(P) (string, error)) error {
	seen := map[string]bool{}
	for list.HasNext() {
		page, err := list.Next(ctx)
		if err != nil {
			return wrong(err)
		}
		next, err := f(page)
		if err != nil {
			return err
		}
		if next != "" && seen[next] {
			return wrong(hinterr.Damaged("the registry's list repeats itself"))
		}
		if seen[next] = true; len(seen) > maxPages {
			return wrong(hinterr.Damaged("the registry's list has more than %d pages", maxPages))
		}
	}
	return nil
}

// notImages are the tags of what belongs to images: vfix's and other tools' statements and signatures
// (distribution-spec, "Referrers Tag Schema"; cosign, SIGNATURE_SPEC.md).
var notImages = lazy.Regexp(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`)

// isTag is the grammar of tags (distribution-spec, "Pulling manifests"): anything else cannot be pulled, and in
// a list it may be read as something else.
var isTag = lazy.Regexp(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// EachTags calls f for each page of the tags of a repository that are of images.
func EachTags(ctx context.Context, repo name.Repository, o Options, f func([]name.Tag) error) error {
	wrong := func(err error) error {
		return registryError(ctx, repo.Registry, "repository "+repo.RepositoryStr()+", list of tags", "no such repository", jsonobject.InWords(err))
	}
	opts, err := o.Net.Options(ctx, repo, false)
	if err != nil {
		return wrong(err)
	}
	p, err := remote.NewPuller(opts...)
	if err != nil {
		return err
	}
	list, err := p.Lister(ctx, repo)
	if err != nil {
		return wrong(err)
	}
	return eachPage(ctx, wrong, list, func(page *remote.Tags) (string, error) {
		var tags []name.Tag
		for _, t := range page.Tags {
			if isTag().MatchString(t) && !notImages().MatchString(t) {
				tags = append(tags, repo.Tag(t))
			}
		}
		return page.Next, f(tags)
	})
}
