// Signatures of the base: they sign its digest, and so do not hold for the result. Only the
// registry that the base was read from is queried.

package images

import (
	"context"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/images/registry"
)

// Signature is a signature, or a signed statement, that a registry has of the base.
type Signature struct {
	Kind  string `json:"kind"`  // "cosign signature", "cosign attestation", "notation signature", …
	Where string `json:"where"` // the tag, or the referrer's digest
}

// cosignTags are what cosign puts under the tag sha256-HEX.SUFFIX (cosign,
// specs/SIGNATURE_SPEC.md, "Signature Schemes").
var cosignTags = []struct{ suffix, kind string }{
	{".sig", "cosign signature"},
	{".att", "cosign attestation"},
}

// signedReferrers are the artifact types of signatures that refer to an image; a type goes
// on behind it with a version. Sigstore bundles are what cosign 3 writes (sigstore
// protobuf-specs, sigstore_bundle.proto), of signatures and of attestations; notation: notaryproject/specifications,
// signature-specification.md.
var signedReferrers = []struct{ prefix, kind string }{
	{"application/vnd.dev.sigstore.bundle", "cosign signature or attestation"},
	{"application/vnd.dev.cosign.artifact.sig", "cosign signature"},
	{"application/vnd.cncf.notary.signature", "notation signature"},
}

// findSignatures asks the registry that an image was read from for signatures of it and of
// the index that it is in. The error says that the registry could not be queried.
func findSignatures(ctx context.Context, src *media.Source, o media.Options) ([]Signature, error) {
	if src.Ref.Transport != media.Registry {
		return nil, nil
	}
	n, err := name.ParseReference(src.Ref.Name, registry.NameOptions(o.Insecure)...)
	if err != nil {
		return nil, media.BadName(src.Ref.Name, err)
	}
	digests, err := provenance.DigestsOf(src)
	if err != nil {
		return nil, err
	}
	opts, err := o.Net.Options(ctx, n.Context(), false)
	if err != nil {
		return nil, media.RegistryError(ctx, n, err)
	}
	var all []Signature
	for _, d := range provenance.UniqueHashes(digests[1:]) {
		found, err := signaturesOf(n.Context(), d, opts)
		if err != nil {
			return all, media.RegistryError(ctx, n, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func signaturesOf(repo name.Repository, d v1.Hash, opts []remote.Option) ([]Signature, error) {
	var all []Signature
	for _, t := range cosignTags {
		tag := repo.Tag(d.Algorithm + "-" + d.Hex + t.suffix)
		_, err := remote.Head(tag, opts...)
		if registry.NotThere(err) {
			continue
		}
		if err != nil {
			return all, err
		}
		all = append(all, Signature{t.kind, tag.TagStr()})
	}
	referrers, err := provenance.ReferrersOf(repo, d, opts)
	if err != nil {
		return all, err
	}
	for _, r := range referrers {
		for _, s := range signedReferrers {
			if strings.HasPrefix(r.ArtifactType, s.prefix) {
				all = append(all, Signature{s.kind, r.Digest.String()})
			}
		}
	}
	return all, nil
}
