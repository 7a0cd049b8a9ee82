package images

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// verifyStated finds the statement about an image and checks it. base may be nil.
func verifyStated(ctx context.Context, s *session, src, base *Source, o VerifyOptions) (*Verified, error) {
	if src.Image == nil {
		return nil, withHint(errorf(ErrUnsupported, "%v: not an image: no statement is made about folders and files", src.Ref),
			"compare it with what it was: vfix verify --against")
	}
	stated, err := findStatement(ctx, src, o.Statement, o.Media)
	if err != nil {
		return nil, err
	}
	after, err := s.openSubject(ctx, src)
	if err != nil {
		return nil, err
	}
	defer after.close()
	if err := o.Shim.findFallback(ctx, src.Image, after.t, after.f.Findings, after.fetch); err != nil {
		return nil, err
	}
	v := &Verified{Findings: after.f.Findings, Stated: stated}
	if v.Problems, err = checkStatement(ctx, s, stated.Statement, after); err != nil {
		return nil, err
	}
	if base == nil || base.Image == nil {
		return v, nil
	}
	digests, err := digestsOf(base)
	if err != nil {
		return nil, err
	}
	if a := stated.Statement.Predicate.Base.Artifact; !(&Statement{Subject: []Artifact{a}}).hasSubject(digests) {
		v.Problems = append(v.Problems, fmt.Sprintf("statement: its base is %s with the digest %v, and not %v", a.Name, a.Digest, base.Ref))
	}
	return v, nil
}

// digestsOf are all digests that an image is known by where it was read. One that comes
// uncompressed has no manifest of its own.
func digestsOf(src *Source) ([]v1.Hash, error) {
	config, err := src.Image.ConfigName()
	if err != nil {
		return nil, err
	}
	all := []v1.Hash{config}
	if h, err := v1.NewHash(src.Digest); err == nil {
		all = append(all, h)
	}
	if src.Ref.Transport != Daemon && src.Ref.Transport != DockerArchive {
		h, err := src.Image.Digest()
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}
