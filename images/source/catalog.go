// The repositories of a registry and their tags (distribution-spec, "Listing Tags"; the list of repositories is
// distribution's own, and not every registry has it).

package source

import (
	"context"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/textutil"
)

// Repositories returns the repositories of a registry whose names are prefix, or begin with it and a slash; "" is for
// all. With an error they are those of the pages before it.
func Repositories(ctx context.Context, host, prefix string, o Options) (all []name.Repository, err error) {
	o = o.WithDefaults()
	reg, err := name.NewRegistry(host, NameOptions(o.Insecure)...)
	if err != nil {
		return nil, BadName(host, err)
	}
	open := func(p *remote.Puller) (pages[*remote.Catalogs], error) { return p.Catalogger(ctx, reg) }
	err = eachPage(ctx, o, open, func(page *remote.Catalogs) string {
		for _, repo := range page.Repos {
			if prefix == "" || repo == prefix || strings.HasPrefix(repo, prefix+"/") {
				all = append(all, reg.Repo(repo))
			}
		}
		return page.Next
	})
	if err != nil {
		err = registryError(ctx, reg, "list of repositories", "the registry has none", err)
		err = hinterr.With(err, "name one of its repositories: docker://%s/REPOSITORY", reg.RegistryStr())
	}
	return all, err
}

// isTag is the grammar of tags (distribution-spec, "Pulling manifests"); notImage those of other tools' statements
// and signatures (distribution-spec, "Referrers Tag Schema"; cosign, SIGNATURE_SPEC.md).
var (
	isTag    = textutil.LazyRegexp(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
	notImage = textutil.LazyRegexp(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`)
)

// Tags returns the tags of a repository that are of images. With an error they are those of the pages before it.
func Tags(ctx context.Context, repo name.Repository, o Options) (all []name.Tag, err error) {
	open := func(p *remote.Puller) (pages[*remote.Tags], error) { return p.Lister(ctx, repo) }
	err = eachPage(ctx, o.WithDefaults(), open, func(page *remote.Tags) string {
		for _, t := range page.Tags {
			if isTag().MatchString(t) && !notImage().MatchString(t) {
				all = append(all, repo.Tag(t))
			}
		}
		return page.Next
	})
	if err != nil {
		err = registryError(ctx, repo.Registry, "repository "+repo.RepositoryStr()+", list of tags", "no such repository", err)
	}
	return all, err
}

// pages is a list of a registry, page by page.
type pages[P any] interface {
	HasNext() bool
	Next(context.Context) (P, error)
}

// maxPages is how many pages a list may have: a million images if a page has 100.
const maxPages = 10_000

// eachPage calls f for each page of a registry's list; f returns the address of the next one. Some registries name
// the same page again and again, or one more without an end.
func eachPage[P any](ctx context.Context, o Options, open func(*remote.Puller) (pages[P], error), f func(P) string) error {
	p, err := remote.NewPuller(o.Net.options(ctx)...)
	if err != nil {
		return err
	}
	list, err := open(p)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for list.HasNext() {
		page, err := list.Next(ctx)
		if err != nil {
			return err
		}
		next := f(page)
		if next != "" && seen[next] || len(seen) == maxPages {
			return hinterr.Damaged("the registry's list repeats itself, or has more than %d pages", maxPages)
		}
		seen[next] = true
	}
	return nil
}
