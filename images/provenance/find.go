// Finding the statement about an image: in a file, beside an archive or layout, or in a
// registry.

package provenance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/tidwall/gjson"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
)

// Stated is a statement as it was found.
type Stated struct {
	Statement *Statement
	Raw       []byte // its bytes
	From      string // the file, or the referrer with its digest
}

// Find finds the statement about an image in the place where a rebuild puts it; file, if it
// is not "", is the user's choice instead.
func Find(ctx context.Context, src *media.Source, file string, o media.Options) (*Stated, error) {
	digests, err := DigestsOf(src)
	if err != nil {
		return nil, err
	}
	if file != "" {
		return readStatement(file)
	}
	switch src.Ref.Transport {
	case media.Registry:
		return referredStatement(ctx, src, digests, o)
	case media.OCILayout, media.OCIArchive, media.DockerArchive:
		return besideStatement(src.Ref, digests)
	}
	return nil, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%v: no statement of provenance: a daemon keeps none", src.Ref),
		"keep it when rebuilding: vfix rebuild --provenance FILE; then: vfix verify --statement FILE")
}

func readStatement(file string) (*Stated, error) {
	raw, err := blob.ReadSmall(file, maxStatement)
	if err != nil {
		return nil, err
	}
	st, err := parseStatement(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &Stated{st, raw, file}, nil
}

// besideStatement finds the file beside an archive or layout. A layout that was named
// without a tag may have one with it.
func besideStatement(ref media.Ref, digests []v1.Hash) (*Stated, error) {
	path := statementPath(ref)
	st, err := readStatement(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return st, err
	}
	if ref.Transport == media.OCILayout {
		others, _ := filepath.Glob(globQuote(filepath.Clean(ref.Name)) + ".*" + statementSuffix)
		for _, p := range others {
			if st, err := readStatement(p); err == nil && st.Statement.HasSubject(digests) {
				return st, nil
			}
		}
	}
	return nil, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%v: no statement of provenance: %s is not there", ref, path), "name its file: --statement FILE")
}

// globQuote makes a pattern that matches a path alone.
func globQuote(path string) string {
	if filepath.Separator == '\\' {
		return path // a system without quoting of characters
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// referredStatement asks a registry for what refers to the image.
func referredStatement(ctx context.Context, src *media.Source, digests []v1.Hash, o media.Options) (*Stated, error) {
	n, err := name.ParseReference(src.Ref.Name, registry.NameOptions(o.Insecure)...)
	if err != nil {
		return nil, media.BadName(src.Ref.Name, err)
	}
	opts, err := o.Net.Options(ctx, n.Context(), false)
	if err != nil {
		return nil, media.RegistryError(ctx, n, err)
	}
	var last error
	for _, d := range UniqueHashes(digests[1:]) { // [0] is the config, to which nothing refers
		found, err := ReferrersOf(n.Context(), d, opts)
		if err != nil {
			return nil, media.RegistryError(ctx, n, err)
		}
		for _, r := range found {
			if !r.MediaType.IsImage() || !mayState(r) {
				continue
			}
			st, err := fetchStatement(registry.Remote{Ctx: ctx, Net: o.Net, Repo: n.Context(), Origin: n.Context()}, r)
			if err == nil && st.Statement.HasSubject(digests) {
				return st, nil
			}
			if err != nil && !errors.Is(err, hinterr.ErrUnsupported) {
				last = media.RegistryError(ctx, n, err)
			}
		}
	}
	if last != nil {
		return nil, last
	}
	return nil, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%v: no statement of provenance refers to it", src.Ref),
		"vfix attaches one when it pushes; one in a file is named by --statement FILE")
}

// mayState reports whether a referrer may be a statement of vfix's: by its annotation, or,
// where a registry leaves annotations out of its list, by its type.
func mayState(r v1.Descriptor) bool {
	if p := r.Annotations[predicateKey]; p != "" {
		return p == PredicateType
	}
	return r.ArtifactType == inTotoMediaType
}

// UniqueHashes are the hashes in their order, each once.
func UniqueHashes(all []v1.Hash) []v1.Hash {
	var out []v1.Hash
	for _, h := range all {
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

// ReferrersOf lists what refers to a manifest.
func ReferrersOf(repo name.Repository, d v1.Hash, opts []remote.Option) ([]v1.Descriptor, error) {
	idx, err := remote.Referrers(repo.Digest(d.String()), opts...)
	if err != nil {
		return nil, err
	}
	m, err := idx.IndexManifest()
	if err != nil {
		return nil, err
	}
	untyped := 0
	for i := range m.Manifests {
		r := &m.Manifests[i]
		if r.ArtifactType != "" && r.ArtifactType != string(EmptyConfigType) {
			continue
		}
		if untyped++; untyped > maxUntyped {
			break
		}
		if err := fillType(repo, r, opts); err != nil {
			return nil, err
		}
	}
	return m.Manifests, nil
}

// maxUntyped is how many referrers without a type are looked at.
const maxUntyped = 100

// fillType takes the type of a referrer from its manifest. Where a registry has no API for referrers,
// clients keep the list, and cosign 3.1 writes the type of the config into it.
func fillType(repo name.Repository, r *v1.Descriptor, opts []remote.Option) error {
	desc, err := remote.Get(repo.Digest(r.Digest.String()), opts...)
	if registry.NotThere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if t := gjson.GetBytes(desc.Manifest, "artifactType").Str; t != "" {
		r.ArtifactType = t
	}
	return nil
}

func fetchStatement(from registry.Remote, r v1.Descriptor) (*Stated, error) {
	manifest, err := blob.ReadBlob(from, r, "referrer", blob.MaxManifest)
	if err != nil {
		return nil, err
	}
	var m struct {
		Layers []v1.Descriptor `json:"layers"`
	}
	if err := json.Unmarshal(manifest, &m); err != nil {
		return nil, hinterr.Damaged("referrer %v: %v", r.Digest, err)
	}
	for _, l := range m.Layers {
		if l.MediaType != types.MediaType(inTotoMediaType) {
			continue
		}
		raw, err := blob.ReadBlob(from, l, "statement", maxStatement)
		var st *Statement
		if err == nil {
			st, err = parseStatement(raw)
		}
		if err != nil {
			return nil, fmt.Errorf("referrer %v: %w", r.Digest, err)
		}
		return &Stated{st, raw, from.Repo.Digest(r.Digest.String()).Name()}, nil
	}
	return nil, hinterr.Errorf(hinterr.ErrUnsupported, "referrer %v: no statement in it", r.Digest)
}

// DigestsOf are all digests that an image is known by in its source. One that comes
// uncompressed has no manifest of its own.
func DigestsOf(src *media.Source) ([]v1.Hash, error) {
	config, err := src.Image.ConfigName()
	if err != nil {
		return nil, err
	}
	all := []v1.Hash{config}
	if h, err := v1.NewHash(src.Digest); err == nil {
		all = append(all, h)
	}
	if src.Ref.HasManifests() {
		h, err := src.Image.Digest()
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}
