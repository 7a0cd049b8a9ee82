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

// listTime is how many times the limit on a request without progress a list may take: some registries name the same
// page again and again.
const listTime = 20

// Repositories returns the repositories of a registry whose names are prefix, or begin with it and a slash; "" is for
// all.
func Repositories(ctx context.Context, host, prefix string, o Options) (all []name.Repository, err error) {
	o = o.WithDefaults()
	reg, err := name.NewRegistry(host, NameOptions(o.Insecure)...)
	if err != nil {
		return nil, BadName(host, err)
	}
	bounded, cancel := context.WithTimeout(ctx, listTime*o.Stall)
	defer cancel()
	names, err := remote.Catalog(bounded, reg, o.Net.options(bounded)...)
	if err != nil {
		err = registryError(ctx, reg, "list of repositories", err)
		return nil, hinterr.With(err, "name one of its repositories: docker://%s/REPOSITORY", reg.RegistryStr())
	}
	for _, n := range names {
		if prefix == "" || n == prefix || strings.HasPrefix(n, prefix+"/") {
			all = append(all, reg.Repo(n))
		}
	}
	return all, nil
}

// notImage matches the tags of other tools' statements and signatures (distribution-spec, "Referrers Tag Schema";
// cosign, SIGNATURE_SPEC.md).
var notImage = textutil.LazyRegexp(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`)

// Tags returns the tags of a repository that are of images.
func Tags(ctx context.Context, repo name.Repository, o Options) (all []name.Tag, err error) {
	o = o.WithDefaults()
	bounded, cancel := context.WithTimeout(ctx, listTime*o.Stall)
	defer cancel()
	tags, err := remote.List(repo, o.Net.options(bounded)...)
	if err != nil {
		return nil, registryError(ctx, repo.Registry, repo.RepositoryStr()+": list of tags", err)
	}
	for _, t := range tags {
		if !notImage().MatchString(t) {
			all = append(all, repo.Tag(t))
		}
	}
	return all, nil
}
