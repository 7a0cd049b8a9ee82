// The repositories of a registry and their tags (distribution-spec, "Listing Tags"; the list of repositories is
// distribution's own, and not every registry has it).

package source

import (
	"context"
	"regexp"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"vfix.dev/vfix/internal/hinterr"
)

// EachRepository calls f for the repositories of a registry whose names are prefix, or begin with it and a slash; ""
// is for all.
func EachRepository(ctx context.Context, host, prefix string, o Options, f func(name.Repository) error) error {
	o = o.WithDefaults()
	reg, err := name.NewRegistry(host, o.Net.nameOptions()...)
	if err != nil {
		return BadName(host, err)
	}
	wrong := func(err error) error {
		err = registryError(ctx, reg, "list of repositories", "the registry has none", err)
		return hinterr.With(err, "name one of its repositories: docker://%s/REPOSITORY", reg.RegistryStr())
	}
	open := func(p *remote.Puller) (pages[*remote.Catalogs], error) { return p.Catalogger(ctx, reg) }
	return eachPage(ctx, o, wrong, open, func(page *remote.Catalogs) (string, error) {
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

// isTag is the grammar of tags (distribution-spec, "Pulling manifests"); notImage those of other tools' statements
// and signatures (distribution-spec, "Referrers Tag Schema"; cosign, SIGNATURE_SPEC.md).
var (
	isTag    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`) })
	notImage = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`) })
)

// EachTags calls f for each page of the tags of a repository that are of images.
func EachTags(ctx context.Context, repo name.Repository, o Options, f func([]name.Tag) error) error {
	wrong := func(err error) error {
		return registryError(ctx, repo.Registry, "repository "+repo.RepositoryStr()+", list of tags", "no such repository", err)
	}
	open := func(p *remote.Puller) (pages[*remote.Tags], error) { return p.Lister(ctx, repo) }
	return eachPage(ctx, o.WithDefaults(), wrong, open, func(page *remote.Tags) (string, error) {
		var tags []name.Tag
		for _, t := range page.Tags {
			if isTag().MatchString(t) && !notImage().MatchString(t) {
				tags = append(tags, repo.Tag(t))
			}
		}
		return page.Next, f(tags)
	})
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
func eachPage[P any](ctx context.Context, o Options, wrong func(error) error, open func(*remote.Puller) (pages[P], error), f func(P) (string, error)) error {
	p, err := remote.NewPuller(o.Net.options(ctx)...)
	if err != nil {
		return err
	}
	list, err := open(p)
	if err != nil {
		return wrong(err)
	}
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
		if next != "" && seen[next] || len(seen) == maxPages {
			return wrong(hinterr.Damaged("the registry's list repeats itself, or has more than %d pages", maxPages))
		}
		seen[next] = true
	}
	return nil
}
