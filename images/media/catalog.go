// What a registry has: its repositories and their tags (distribution-spec, "Listing Tags"; the list of
// repositories is distribution's own, "Listing Repositories", and not every registry has it).

package media

import (
	"context"
	"regexp"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
)

// NamePattern reads a PATTERN: * is any text, ? any character. It is of a whole name, which may be
// without its prefix and registry.
func NamePattern(glob string) *regexp.Regexp {
	text := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(glob))
	return regexp.MustCompile(`^(?:[a-z-]+:(?://)?)?(?:[^/]+/)?(?:` + text + `)$`)
}

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
	pages, err := p.Catalogger(ctx, reg)
	seen := pagesSeen{}
	for err == nil && pages.HasNext() {
		var page *remote.Catalogs
		if page, err = pages.Next(ctx); err == nil {
			err = seen.next(page.Next)
		}
		if err != nil {
			break
		}
		for _, repo := range page.Repos {
			if prefix != "" && repo != prefix && !strings.HasPrefix(repo, prefix+"/") {
				continue
			}
			if err := f(reg.Repo(repo)); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return RegistryError(ctx, reg.Repo("_catalog").Tag("list"), err)
	}
	return nil
}

// pagesSeen are the addresses of a list's pages: some registries name the same one again and again.
type pagesSeen map[string]bool

func (p pagesSeen) next(page string) error {
	if page != "" && p[page] {
		return hinterr.Damaged("the registry's list repeats itself")
	}
	p[page] = true
	return nil
}

// notImages are the tags of what belongs to images: vfix's and other tools' statements and signatures
// (distribution-spec, "Referrers Tag Schema"; cosign, SIGNATURE_SPEC.md).
var notImages = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`) })

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
	pages, err := p.Lister(ctx, repo)
	seen := pagesSeen{}
	for err == nil && pages.HasNext() {
		var page *remote.Tags
		if page, err = pages.Next(ctx); err == nil {
			err = seen.next(page.Next)
		}
		if err != nil {
			break
		}
		var tags []name.Tag
		for _, t := range page.Tags {
			if !notImages().MatchString(t) {
				tags = append(tags, repo.Tag(t))
			}
		}
		if err := f(tags); err != nil {
			return err
		}
	}
	if err != nil {
		return RegistryError(ctx, repo.Tag("list"), err)
	}
	return nil
}
