// What a registry has: its repositories and their tags (distribution-spec, "Listing Tags"; the list of
// repositories is distribution's own, "Listing Repositories", and not every registry has it).

package media

import (
	"context"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
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
	list, err := p.Catalogger(ctx, reg)
	if err != nil {
		return RegistryError(ctx, reg.Repo("_catalog").Tag("list"), err)
	}
	return eachPage(ctx, reg.Repo("_catalog"), list, func(page *remote.Catalogs) (string, error) {
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

// maxPages is how many pages a list may have: a million images where a page has 100.
const maxPages = 10_000

// eachPage calls f for each page of a registry's list; f returns the address of the next one. Some
// registries name the same one again and again, or one more without an end.
func eachPage[P any](ctx context.Context, repo name.Repository, list interface {
	HasNext() bool
	Next(context.Context) (P, error)
}, f func(P) (string, error)) error {
	seen := map[string]bool{}
	for list.HasNext() {
		page, err := list.Next(ctx)
		if err != nil {
			return RegistryError(ctx, repo.Tag("list"), err)
		}
		next, err := f(page)
		if err != nil {
			return err
		}
		if next != "" && seen[next] {
			return RegistryError(ctx, repo.Tag("list"), hinterr.Damaged("the registry's list repeats itself"))
		}
		if seen[next] = true; len(seen) > maxPages {
			return RegistryError(ctx, repo.Tag("list"), hinterr.Damaged("the registry's list has more than %d pages", maxPages))
		}
	}
	return nil
}

// notImages are the tags of what belongs to images: vfix's and other tools' statements and signatures
// (distribution-spec, "Referrers Tag Schema"; cosign, SIGNATURE_SPEC.md).
var notImages = lazy.Regexp(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`)

// isTag is the grammar of tags (distribution-spec, "Pulling manifests"): what is none cannot be pulled, and in
// a list it may be read as something else.
var isTag = lazy.Regexp(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// EachTags calls f for each page of the tags of a repository that are of images.
func EachTags(ctx context.Context, repo name.Repository, o Options, f func([]name.Tag) error) error {
	opts, err := o.Net.Options(ctx, repo, false)
	if err != nil {
		return RegistryError(ctx, repo.Tag("list"), err)
	}
	p, err := remote.NewPuller(opts...)
	if err != nil {
		return err
	}
	list, err := p.Lister(ctx, repo)
	if err != nil {
		return RegistryError(ctx, repo.Tag("list"), err)
	}
	return eachPage(ctx, repo, list, func(page *remote.Tags) (string, error) {
		var tags []name.Tag
		for _, t := range page.Tags {
			if isTag().MatchString(t) && !notImages().MatchString(t) {
				tags = append(tags, repo.Tag(t))
			}
		}
		return page.Next, f(tags)
	})
}
